"""``learn`` with blocks: what it tests, what it writes, and what it says."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import MAPPING, decisions
from scipy import stats

import drcrm
from drcrm.errors import InputError
from drcrm.logs import block_policies
from drcrm.logs.decisions import candidates
from drcrm.mapping.log_mapping import as_mapping

FAST = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01], "options": {"estimate": "dr", "start": "model"}}
BLOCKS = MAPPING | {"algorithm": FAST, "validation": "blocks", "time": "t"}
GUARDRAILS = {"kept": {"reward": "copy", "at_least": -0.01}}


def draw(seed: int, start: str = "2026-01-01") -> pd.DataFrame:
    frame = decisions(800, seed)
    return frame.assign(t=pd.date_range(start, periods=800, freq="h").astype(str), copy=frame.click)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return draw(1)


@pytest.fixture(scope="module")
def answer(frame):
    return drcrm.learn(frame, BLOCKS | {"guardrails": GUARDRAILS})


def test_the_answer_has_a_test_for_each_block(answer):
    content = answer.as_dict()
    blocks, difference = content["blocks"], content["candidates"][0]["difference"]
    assert [block["rows"] for block in blocks] == [216, 192, 200]  # whole days
    assert blocks[0]["first"] == "2026-01-09T00:00:00"  # after a quarter of the rows, at the nearest midnight
    assert blocks[-1]["last"] == "2026-02-03T07:00:00"
    deviation = [(b["high"] - b["low"]) / 2 / stats.t(b["rows"] - 1).ppf(0.975) * np.sqrt(b["rows"]) for b in blocks]
    precision = np.array([block["rows"] for block in blocks]) / deviation
    change = precision @ [block["change"] for block in blocks] / precision.sum()
    error = np.sqrt(608) / precision.sum()
    assert difference["value"] == pytest.approx(change, rel=1e-9)
    assert difference["standard_error"] == pytest.approx(error, rel=1e-9)
    assert change + error * stats.t(605).ppf(0.95) - 1e-9 <= difference["bound"] < 0


def test_the_sentence_says_what_was_shown_and_what_is_in_the_file(answer):
    sentence = answer.as_dict()["verdict"]["sentence"]
    assert answer.is_better
    assert sentence.startswith(
        "The way of learning is shown to be better: policies learned on the rows before changed click by +0."
    )
    assert sentence.endswith("The policy in the file was fitted again to all rows; certify it on later rows.")
    assert "the way of learning" in str(answer)


def test_a_guardrail_on_the_outcome_itself_has_its_difference(answer):
    """Guardrails have the weights of the verdict; the cost models differ, so the estimates differ a little."""
    [rail] = answer.as_dict()["guardrails"]
    assert rail["status"] == "holds"
    assert rail["difference"]["value"] == pytest.approx(
        answer.as_dict()["candidates"][0]["difference"]["value"], abs=0.02
    )


def test_the_policy_is_certified_on_later_rows_only(answer, frame, tmp_path):
    path = tmp_path / "policy.npz"
    answer.save(path)
    with pytest.raises(InputError, match="the policy was learned from all 800 rows, expected held-out or new rows"):
        drcrm.certify(path, frame)
    later = drcrm.certify(path, draw(2, "2026-03-01")).as_dict()
    assert (later["choices"], later["effective_choices"]) == (1, 1)


def test_later_outcomes_do_not_change_the_test_of_an_earlier_block(answer, frame):
    """The first policy, its cost model and its choice come from the rows before."""
    click = frame.click.to_numpy().copy()
    click[408:] = np.random.default_rng(0).permutation(click[408:])
    changed = drcrm.learn(frame.assign(click=click), BLOCKS).as_dict()["blocks"]
    first, *others = answer.as_dict()["blocks"]
    assert changed[0]["change"] == pytest.approx(first["change"], rel=1e-9)
    assert all(abs(one["change"] - other["change"]) > 1e-6 for one, other in zip(changed[1:], others, strict=True))


def test_propensities_of_a_block_are_estimated_from_the_rows_before(frame):
    """Later actions change neither the first block's test nor the estimates that it uses."""
    mapping = {key: value for key, value in BLOCKS.items() if key != "propensity"} | {"propensity_model": "softmax"}
    section = frame[MAPPING["action"]].to_numpy().copy()
    section[408:] = np.random.default_rng(0).permutation(section[408:])
    answers = [drcrm.learn(rows, mapping) for rows in (frame, frame.assign(**{MAPPING["action"]: section}))]
    [first, *_], [changed, *_] = (answer.as_dict()["blocks"] for answer in answers)
    assert first["rows"] == 216
    assert changed["change"] == pytest.approx(first["change"], rel=1e-6)


def test_without_a_gain_the_logging_policy_is_kept(frame):
    click = np.random.default_rng(1).integers(0, 2, len(frame))
    mapping = {key: value for key, value in BLOCKS.items() if key not in ("validation", "time")}
    answer = drcrm.learn(frame.assign(click=click), mapping, validation="blocks")
    sentence = answer.as_dict()["verdict"]["sentence"]
    assert answer.policy.header["kept"] == "logging"
    assert sentence.startswith(
        "The way of learning was not shown to beat the logging policy on the 600 rows of 3 blocks, so an estimate of "
        "the logging policy is written."
    )
    assert [block["first"] for block in answer.as_dict()["blocks"]] == [201, 401, 601]


@pytest.mark.parametrize("unlogged", [[2], pytest.param([1, 2, 3], marks=pytest.mark.slow)])
def test_blocks_without_logged_actions_of_their_policies_have_no_difference(frame, monkeypatch, unlogged):
    join = block_policies._join

    def join_without_actions(log, number, *learned):
        policy, model = join(log, number, *learned)
        return replace(policy, log_prob=np.where(np.isin(number, unlogged), -np.inf, policy.log_prob)), model

    monkeypatch.setattr(block_policies, "_join", join_without_actions)
    answer = drcrm.learn(frame, BLOCKS)
    assert answer.verdict.name == "the log cannot say"
    assert [n for n, block in enumerate(answer.as_dict()["blocks"], 1) if block["change"] is None] == unlogged


def test_blocks_are_compared_with_a_baseline(answer, frame, tmp_path):
    """The difference from the baseline is that from the logging policy minus the baseline's."""
    path = tmp_path / "baseline.npz"
    answer.save(path)
    later = draw(3, "2027-01-01")
    answers = drcrm.learn(later, BLOCKS, baseline=path), drcrm.learn(later, BLOCKS), drcrm.certify(path, later)
    difference, plain, gain = (
        next(entry["difference"]["value"] for entry in compared.as_dict()["candidates"] if "difference" in entry)
        for compared in answers
    )
    assert difference == pytest.approx(plain - gain, abs=0.05)


def draw_lists(seed: int) -> pd.DataFrame:
    """Return 300 lists of three candidates, of which cheap ones are clicked."""
    rng = np.random.default_rng(seed)
    price, shown = rng.uniform(size=(300, 3)), rng.integers(0, 3, 300)[:, None] == np.arange(3)
    click = (rng.random((300, 3)) < 0.9 - 0.8 * price) * shown
    return pd.DataFrame(
        {
            "request": np.repeat([f"{seed}.{number}" for number in range(300)], 3),
            "user": np.repeat(rng.integers(0, 150, 300), 3) + 1000 * seed,
            "price": price.ravel(),
            "shown": shown.ravel().astype(int),
            "p": 1 / 3,
            "click": click.ravel(),
        }
    )


LISTS = {"list": "request", "chosen": "shown", "propensity": "p", "reward": "click", "features": {"numeric": ["price"]}}
GROUPS = {key: value for key, value in MAPPING.items() if key != "slice"} | {"group": "position"}
MIXED = {
    "groups": (lambda seed: draw(seed).assign(position=np.arange(800) // 2 + 1000 * seed), GROUPS),
    "lists": (draw_lists, LISTS | {"group": "user"}),
}


@pytest.mark.parametrize("kind", [pytest.param("groups", marks=pytest.mark.slow), "lists"])
def test_a_mixture_draws_the_policies_of_the_blocks_with_their_weights(kind, monkeypatch, tmp_path):
    draw_log, mapping = MIXED[kind]
    parts, learn_policies = [], candidates.learn_policies
    monkeypatch.setattr(candidates, "learn_policies", lambda *known: parts.append(learn_policies(*known)) or parts[0])
    answer = drcrm.learn(draw_log(1), mapping | {"algorithm": FAST, "validation": "blocks"}, deploy="mixture")
    assert answer.is_better
    assert answer.as_dict()["verdict"]["sentence"].endswith("it draws one of them for each decision.")
    blocks = answer.as_dict()["blocks"]
    weights = np.array([1 / (block["high"] - block["low"]) for block in blocks])  # blocks of almost equal size
    mixture, policies = answer.policy.policy, [learned.policy for learned in parts[0].learned]
    assert mixture.weights == pytest.approx(weights / weights.sum(), abs=0.02)
    X = parts[0].log.actions.unbind(parts[0].log.X)
    expected = sum(w * policy.marginals(X) for w, policy in zip(mixture.weights, policies, strict=True))
    assert mixture.marginals(X) == pytest.approx(expected, abs=1e-12)
    path = tmp_path / "policy.npz"
    answer.save(path)
    served = drcrm.load_policy(path)
    assert served.policy.marginals(X) == pytest.approx(expected, abs=1e-12)
    later = draw_log(2)
    X = served.encoding.contexts(later)
    actions, propensities = served.decide(later, random_state=0)
    drawn, known = mixture.draw(X, 0)
    assert propensities == pytest.approx(known, abs=1e-12)
    assert list(actions) == list(mixture.actions.named(drawn, served.names))
    certified = drcrm.certify(path, later).as_dict()["candidates"][0]
    assert certified["difference"]["value"] < 0
    with pytest.raises(InputError, match="exported"):
        served.to_json()


SPLIT = "split is 'last 25 %', but validation: blocks holds out no rows: remove one of them"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"deploy": "mixture"}, "deploy is 'mixture', but only validation: blocks has policies of blocks"),
        ({"split": "last 25 %", "validation": "blocks"}, SPLIT),
        ({"validation": "folds"}, "validation"),
    ],
)
def test_keys_that_blocks_exclude_are_refused(content, message):
    with pytest.raises(InputError, match=message):
        as_mapping(content)


def test_a_validation_replaces_that_of_the_mapping():
    with pytest.raises(InputError, match=SPLIT):
        as_mapping({"split": "last 25 %"}).with_validation("blocks")
    mapping = as_mapping({"group": "user", "validation": "blocks"})
    assert mapping.with_validation("holdout").validation == "holdout"
    for kept in (mapping, as_mapping({}).with_validation("blocks", "mixture")):
        assert as_mapping(kept.as_dict()) == kept
        assert kept.validation == "blocks"
    with pytest.raises(InputError, match="--exportable needs deploy: refit"):
        drcrm.learn(draw(1), BLOCKS | {"deploy": "mixture"}, exportable=True)
