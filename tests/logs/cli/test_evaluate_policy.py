"""The commands evaluate_policy and plan."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.log_answers import as_answer, better
from fixtures.user_logs import MAPPING, answer_of, decisions

from drcrm.evaluation.bounds.asymptotic_bounds import smallest_difference
from drcrm.logs.cli.questions import exit_status
from drcrm.logs.decisions.question import ALL_ROWS
from drcrm.logs.diagnostics.comparison.verdict import Verdict
from drcrm.logs.diagnostics.comparison.words import ESTIMATED
from drcrm.logs.report.answer import Answer


def reached(name: str, is_trusted: bool = True) -> Answer:
    """Return an answer with a verdict."""
    return replace(as_answer(better()), verdict=Verdict(name), is_trusted=is_trusted)


def test_heldout_rows_evaluate_the_policy_on_its_own_log(shop, tmp_path, answer):
    learned = answer_of(shop / "answer.json")
    shutil.copy(shop / "log.csv", tmp_path / "renamed.csv")
    view, _ = answer("certify", shop / "policy.npz", tmp_path / "renamed.csv")
    assert (view["choices"], view["log"]["rows"]) == (learned["choices"], 750)
    [candidate], [expected] = view["candidates"], learned["candidates"]
    for key in ("certificate", "difference"):
        assert candidate[key] == pytest.approx(expected[key])
    assert candidate["estimates"]["dr"] == pytest.approx(expected["estimates"]["dr"])


def test_all_rows_of_another_log_certify_one_choice(shop, answer):
    bounds = []
    for confidence in ("0.995", "0.8"):
        view, text = answer("certify", shop / "policy.npz", shop / "later.parquet", "--confidence", confidence)
        [candidate] = view["candidates"]
        bounds.append(-candidate["certificate"]["bound"])
        decimals = 1 - math.floor(math.log10(candidate["difference"]["standard_error"]))
        level = f"with {100 * float(confidence):g} % confidence"
        sentence = (
            f"The policy's mean click is at least {bounds[-1]:.{decimals}f} per row. The change from the logging "
            f"policy is at least {-candidate['difference']['bound']:+.{decimals}f} (now, asymptotic) and "
            f"at least {-view['every_look']['difference']:+.{decimals}f} (at every look, without assumptions on "
            f"tails). Each bound holds {level}."
        )
        assert sentence in text
    assert bounds[1] > bounds[0]
    assert (view["choices"], view["log"]["rows"], view["judged_by"]) == (1, 2000, ALL_ROWS)
    assert view["recognised"] == {"training": 0, "heldout": 0, "new": 2000}
    assert (view["verdict"]["changes"], view["verdict"]["cautions"][-1]) == ([], f"Evaluated on {ALL_ROWS}.")


def test_a_column_with_the_logged_propensities_equals_the_logging_policy(tmp_path, run, answer):
    frame = decisions(1000)
    frame.assign(mine=frame["p"]).to_csv(tmp_path / "log.csv", index=False)
    arguments = "column:mine", tmp_path / "log.csv"
    status, _, error = run("evaluate_policy", *arguments)
    assert (status, error) == (1, "drcrm evaluate_policy: column:mine needs --config, the mapping of the log\n")
    arguments = *arguments, "--config", json.dumps(MAPPING)
    view, _ = answer("evaluate_policy", *arguments)
    [candidate] = view["candidates"]
    assert candidate["estimates"]["ips"]["value"] == pytest.approx(-frame["click"].mean())
    assert candidate["estimates"]["dr"] is None
    assert candidate["difference"]["value"] == pytest.approx(0, abs=1e-12)
    assert view["verdict"]["verdict"] == "not shown"
    status, _, error = run("certify", *arguments, "--estimate", "dr")
    assert (status, "needs a cost model" in error) == (1, True)


def test_failed_checks_refuse_the_certificate(shop, tmp_path, answer):
    decisions(600).assign(p=lambda frame: frame["p"] / 2).to_csv(tmp_path / "wrong.csv", index=False)
    decisions(8).to_csv(tmp_path / "few.csv", index=False)
    for name, verdict in (("wrong", "the log is wrong"), ("few", "the log cannot say")):
        view, _ = answer("certify", shop / "policy.npz", tmp_path / f"{name}.csv")
        assert view["verdict"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "last 25 %"}, "split must be 'random 25 %'"),
        ({"group": "city"}, "'group 25 %'"),
        ({"features": {"numeric": ["age"], "categorical": ["city"]}}, "'price'"),
    ],
)
def test_mappings_that_do_not_fit_the_policy_are_refused(change, message, shop, run):
    """With another split, rows that the policy was learned from would evaluate it."""
    status, _, error = run("certify", shop / "policy.npz", shop / "log.csv", "--config", json.dumps(MAPPING | change))
    assert (status, error.count("\n")) == (1, 1)
    assert message in error


@pytest.mark.parametrize(
    ("verdict", "better", "not_worse"),
    [("better", 0, 0), ("not shown", 4, 0), ("worse", 3, 3), ("the log cannot say", 4, 4), ("the log is wrong", 3, 3)],
)
def test_the_exit_status_depends_on_the_verdict(verdict, better, not_worse, capsys):
    statuses = [exit_status(reached(verdict), requirement) for requirement in (None, "better", "not-worse")]
    assert statuses == [0, better, not_worse]
    assert capsys.readouterr().err.count(f"the verdict is {verdict!r}\n") == np.count_nonzero(statuses)


def test_a_verdict_on_estimated_propensities_passes_only_if_the_mapping_trusts_them(capsys):
    for requirement, trusts, status in (("better", False, 4), ("better", True, 0), ("not-worse", False, 0)):
        assert exit_status(reached("better", trusts), requirement) == status
    assert f"if {ESTIMATED}; to accept this, write propensity_model" in capsys.readouterr().err


def test_fail_unless_writes_the_answer_first(shop, tmp_path, run):
    decisions(8).to_csv(tmp_path / "few.csv", index=False)
    options = ["--fail-unless", "not-worse", "--json", tmp_path / "a.json"]
    status, _, error = run("certify", shop / "policy.npz", tmp_path / "few.csv", *options)
    assert (status, error) == (4, "--fail-unless not-worse: the verdict is 'the log cannot say'\n")
    assert answer_of(tmp_path / "a.json")["verdict"]["verdict"] == "the log cannot say"
    assert run("certify", shop / "policy.npz", shop / "later.parquet", "--fail-unless", "better")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["certify", "none.npz", "log.csv"], "none.npz: no such file"),
        (["certify", "policy.npz", "none.csv"], "none.csv"),
        (["learn", "log.csv", "--output", "p.npz", "--confidence", "0.3"], "expected a number above ½ and below 1"),
        (["learn", "log.csv", "--output", "p.npz", "--seed", "-1"], "expected a whole number from 0"),
        (["learn", "log.csv", "--output", "p.npz", "--config", "{"], "is not JSON"),
        (["learn", "log.csv", "--output", "p.npz", "--config", "none.yaml"], "none.yaml"),
        (["diagnose", "none.csv", "--config", "{}"], "none.csv"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, shop, tmp_path, run, monkeypatch):
    shutil.copy(shop / "policy.npz", tmp_path)
    monkeypatch.chdir(tmp_path)
    status, _, error = run(*arguments)
    assert (status in (1, 2), error.count("\n")) == (True, 1)
    assert message in error


@pytest.fixture
def plan(answer):
    return lambda *arguments: answer("plan", *arguments)


def test_a_policy_is_planned_with_the_evaluation_of_its_rows(plan, shop):
    answer, _ = plan(shop / "log.csv", "--policy", shop / "policy.npz", "--choices", "3")
    learned = answer_of(shop / "answer.json")
    difference = next(entry for entry in learned["candidates"] if entry["chosen"])["difference"]
    assert answer["tested"]["difference"] == pytest.approx(
        {key: difference[key] for key in answer["tested"]["difference"]}
    )
    deviation = difference["standard_error"] * np.sqrt(learned["log"]["heldout"])
    first = answer["sizes"][0]
    assert first["rows"] == 3000
    assert first["difference"] == pytest.approx(smallest_difference(3000, deviation, choices=3))
    later = plan(shop / "later.parquet", "--policy", shop / "policy.npz")[0]
    assert [size["rows"] for size in later["sizes"]] == [2000, 4000, 8000, 16_000]


def test_without_a_policy_the_plan_is_for_the_hardest_action(plan, shop):
    answer, text = plan(shop / "log.csv", "--config", shop / "map.json")
    assert f"always taking '{answer['tested']['action']}'" in text or "…" in text
    frame = decisions(3000)
    rows = np.array(frame["item"] == answer["tested"]["action"])
    weight = (rows / frame["p"]).to_numpy()
    assert answer["tested"]["effective_size"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    value = np.average(frame["click"], weights=weight)
    terms = weight / weight.mean() * (frame["click"] - value) - (frame["click"] - frame["click"].mean())
    assert answer["deviation"] == pytest.approx(terms.std(), rel=0.01)


@pytest.mark.parametrize(("seed", "rows", "low"), [(42, 2500, 0.002), (63, 3000, 0.003), (1, 400, 0.0025)])
def test_a_rare_action_has_a_plan(plan, tmp_path, seed, rows, low):
    """The smallest difference falls like 1/√n, whatever the number of rows with the action; few are a note."""
    rng = np.random.default_rng(seed)
    u = rng.random(rows)
    q = np.where(u < 0.5, low, 0.3 if seed != 1 else low)
    is_rare = rng.random(rows) < q
    is_rare[0] = True
    columns = {"u": u, "item": np.where(is_rare, "b", "a"), "p": np.where(is_rare, q, 1 - q)}
    frame = pd.DataFrame(columns).assign(click=(rng.random(rows) < 0.15 + 0.1 * is_rare).astype(int))
    frame.to_csv(tmp_path / "rare.csv", index=False)
    mapping = {"action": "item", "propensity": "p", "reward": "click", "features": {"numeric": ["u"]}}
    answer, text = plan(tmp_path / "rare.csv", "--config", json.dumps(mapping))
    differences = np.array([size["difference"] for size in answer["sizes"]])
    assert differences[:-1] / differences[1:] == pytest.approx(np.sqrt(2))
    assert ("so the plan is rough" in text) == (answer["tested"]["effective_size"] < 100)


def test_errors(run, shop, tmp_path):
    status, _, error = run("plan", shop / "log.csv")
    assert (status, "plan without --policy needs --config" in error) == (1, True)
    assert run("plan", shop / "log.csv", "--config", shop / "map.json", "--choices", "0")[0] == 2
