"""``--baseline``: comparisons with a learned policy, which has its own encoding, against the library."""

import json

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import draw_actions
from fixtures.reference_formulas import bound_by_loops
from fixtures.text_logs import contexts_of
from fixtures.user_logs import LABELS, LISTS, MAPPING, NAMES, decisions, label_log, list_log

import drcrm
from drcrm import off_policy_value
from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.logs.batches import encode
from drcrm.logs.decisions.candidates import compare_with_baseline, fit_candidates, read_algorithms
from drcrm.logs.decisions.opened_log import open_log
from drcrm.logs.diagnostics.comparison.reference import Reference, policy_on_rows
from drcrm.logs.policy_file import read_policy
from drcrm.logs.read_log import read_raw_log
from drcrm.logs.successive_halving import fit_algorithm
from drcrm.mapping.log_mapping import as_mapping
from drcrm.selection.candidates import PairedDifferences

OTHER = MAPPING | {"features": {"categorical": ["city"]}, "explore": 0.1}  # another encoding than MAPPING's
ROWS = 1500


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """Return a folder with two weekly logs and a later one, and the policies of the first two weeks."""
    folder = tmp_path_factory.mktemp("weeks")
    for number in range(3):
        decisions(ROWS, seed=number + 1).to_csv(folder / f"week{number}.csv", index=False)
    for number, (name, mapping) in enumerate((("old", OTHER), ("new", MAPPING))):
        config, output = json.dumps(mapping), f"{folder}/{name}.npz"
        assert main(["learn", f"{folder}/week{number}.csv", "--config", config, "--output", output]) == 0
        if (candidate := folder / f"{name}.candidate.npz").exists():
            candidate.replace(output)
    return folder


@pytest.fixture
def compare(weeks, answer, tmp_path):
    """Run a command with a baseline; return its answer and its text."""

    def compare(*arguments: object, baseline: str = "old.npz") -> tuple[dict, str]:
        return answer(*arguments, "--baseline", weeks / baseline, "--report", tmp_path / "report.html")

    return compare


def means_of(weeks, frame: pd.DataFrame, names: list) -> list[np.ndarray]:
    """Return the probabilities of all actions under the new and the old policy, with columns in the order of names."""
    means = []
    for name in ("new", "old"):
        stored = read_policy(weeks / f"{name}.npz")
        order = [list(stored.encoding.names).index(action) for action in names]
        means.append(stored.policy.marginals(stored.encoding.contexts(frame))[:, order])
    return means


def log_of_week(weeks, number: int):
    """Return the log of a week with the features of the new policy."""
    stored, path = read_policy(weeks / "new.npz"), weeks / f"week{number}.csv"
    log, frame = drcrm.read_log(path, MAPPING), pd.read_csv(path)
    assert log.encoding.names == stored.encoding.names
    return log.replace(X=stored.encoding.contexts(frame)), frame, stored


def test_a_policy_on_its_own_log_is_compared_with_itself(weeks, answer, tmp_path):
    stored = read_policy(weeks / "new.npz")
    frame, rng = pd.read_csv(weeks / "week2.csv"), np.random.default_rng(0)
    mean = stored.policy.marginals(stored.encoding.contexts(frame))
    place = draw_actions(mean, rng)
    own = frame.assign(item=np.array(stored.encoding.names)[place], p=mean[np.arange(ROWS), place])
    own.to_csv(tmp_path / "own.csv", index=False)
    for command, *options in (["evaluate_policy"], ["certify", "--anytime"]):
        result = answer(command, weeks / "new.npz", tmp_path / "own.csv", *options)[0]
        assert result["verdict"]["sentence"].startswith("The policy has the logged propensities: it probably logged")
        assert "--baseline EARLIER.npz" in result["next_step"]
    other = answer("certify", weeks / "new.npz", weeks / "week2.csv")[0]
    assert "itself" not in other["verdict"]["sentence"]
    options = ["--baseline", weeks / "old.npz"]
    compared = answer("certify", weeks / "new.npz", tmp_path / "own.csv", *options)[0]
    assert "itself" not in compared["verdict"]["sentence"]
    rare = own.assign(click=np.where(rng.random(ROWS) < 0.01, rng.lognormal(3, 1.5, ROWS), 0))
    rare.to_csv(tmp_path / "rare.csv", index=False)
    refused = answer("certify", weeks / "new.npz", tmp_path / "rare.csv", *options)[0]
    assert "the skewness of its mean" in refused["verdict"]["sentence"]
    [advice] = refused["verdict"]["changes"]
    assert advice.startswith("The log says little about the baseline old.npz: its effective sample size is")


def test_candidates_are_chosen_by_their_differences_from_the_baseline(weeks, monkeypatch):
    mapping, stored = as_mapping(MAPPING | {"algorithm": "kl_dro_dr"}), read_policy(weeks / "old.npz", with_rows=True)
    opened = open_log(weeks / "week2.csv", mapping, lambda message: None, seed=0, reference=Reference(policy=stored))
    plain = fit_algorithm(opened.train, opened.evaluated, read_algorithms(mapping)[0])
    learned = compare_with_baseline(plain, opened)
    for place in (0, 3, len(learned.candidates) - 1):
        policy = learned.candidates[place].policy
        options = {"baseline": opened.reference.policy, "cost_model": learned.cost_model}
        expected = off_policy_value(policy, opened.evaluated, "dr", **options)
        if not learned.candidates[place].is_logging:
            assert learned.differences.valid[:, place].mean() == pytest.approx(float(expected), abs=1e-9)
    assert not np.allclose(learned.differences.clipped, plain.differences.clipped)
    chosen_by, choose = [], PairedDifferences.choose
    monkeypatch.setattr(PairedDifferences, "choose", lambda self, *rest: chosen_by.append(self) or choose(self, *rest))
    fit_candidates(opened, read_algorithms(mapping), lambda message: None)
    for differences in chosen_by[1:]:  # the first choice is that of the fit, which knows no baseline
        np.testing.assert_allclose(differences.valid, learned.differences.valid, atol=1e-12)
    assert len(chosen_by) == 3  # among all candidates, and among those of the algorithm


def test_rows_that_trained_the_baseline_are_left_out(weeks, compare):
    """Week 0 trained the old policy with three quarters of its rows; the others are new for both policies."""
    files = [weeks / "week0.csv", weeks / "week2.csv"]
    trained = int((~read_policy(weeks / "old.npz", with_rows=True).rows.heldout).sum())
    assert trained == ROWS - ROWS // 4
    answer, text = compare("certify", weeks / "new.npz", *files)
    assert answer["log"]["rows"] == 2 * ROWS - trained
    assert f"without {trained} other rows that the baseline was learned from" in text
    assert answer["choices"] == 1


def test_learn_compares_with_the_baseline(weeks, compare, tmp_path):
    files = [weeks / "week0.csv", weeks / "week1.csv"]
    arguments = [*files, "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"]
    answer, _ = compare("learn", *arguments)
    is_kept = answer["kept"] == "baseline"
    heldout = read_policy(tmp_path / ("p.candidate.npz" if is_kept else "p.npz"), with_rows=True).rows.heldout
    trained = np.flatnonzero(~read_policy(weeks / "old.npz", with_rows=True).rows.heldout)
    assert not heldout[trained].any()
    assert 300 < heldout.sum() == answer["log"]["heldout"] < 600
    assert "the baseline old.npz" in answer["verdict"]["sentence"]
    stored = read_policy(tmp_path / ("p.npz" if answer["kept"] != "baseline" else "p.candidate.npz"))
    frame = pd.concat([pd.read_csv(path) for path in files], ignore_index=True)
    log = drcrm.BanditLog.from_frame(frame, MAPPING)
    log = log.replace(X=stored.encoding.contexts(frame)).recount(heldout.astype(int))
    old = read_policy(weeks / "old.npz")
    mean = old.policy.marginals(old.encoding.contexts(frame[heldout]))
    value = off_policy_value(stored.policy, log, "dr", baseline=mean, cost_model=stored.model)
    [candidate] = [entry for entry in answer["candidates"] if not entry.get("is_baseline")]
    assert candidate["difference"]["value"] == pytest.approx(float(value), rel=1e-6)


def test_learn_writes_the_baseline_if_no_candidate_is_better(weeks, compare, tmp_path):
    arguments = [weeks / "week2.csv", "--config", json.dumps(OTHER), "--output", tmp_path / "p.npz"]
    answer, text = compare("learn", *arguments, baseline="old.npz")
    assert (answer["kept"], "exploration" in answer) == ("baseline", False)
    assert "No candidate was shown to beat the baseline old.npz" in text
    assert "Keep the baseline old.npz" in answer["next_step"]
    kept, baseline = read_policy(tmp_path / "p.npz", with_rows=True), read_policy(weeks / "old.npz", with_rows=True)
    np.testing.assert_array_equal(kept.policy.coef, baseline.policy.coef)
    np.testing.assert_array_equal(kept.rows.heldout, baseline.rows.heldout)
    assert (kept.policy.explore, kept.header) == (baseline.policy.explore, baseline.header)


def write_rules(folder, names: list[str]) -> None:
    """Write a log of these items only, and learn a policy from it."""
    frame = decisions(900, seed=9)
    rng = np.random.default_rng(0)
    frame["item"], frame["p"] = rng.choice(names, 900), 1 / len(names)
    frame.to_csv(folder / "part.csv", index=False)
    config = json.dumps(MAPPING | {"algorithm": "cips"})
    assert main(["learn", f"{folder}/part.csv", "--config", config, "--output", f"{folder}/part.npz"]) == 0


def test_actions_that_the_baseline_does_not_have_get_no_probability(weeks, tmp_path):
    write_rules(tmp_path, [*NAMES[:2]])
    stored, raw_log = read_policy(tmp_path / "part.npz"), read_raw_log(weeks / "week2.csv", MAPPING)
    log, frame, _ = log_of_week(weeks, 2)
    policy = policy_on_rows(stored, raw_log, None, log)
    known = stored.policy.marginals(stored.encoding.contexts(frame))
    names = list(log.encoding.names)
    for number, name in enumerate(stored.encoding.names):
        np.testing.assert_allclose(policy.mean[:, names.index(name)], known[:, number], rtol=1e-12)
    assert (policy.mean[:, names.index(NAMES[2])] == 0).all()
    assert np.array_equal(np.isneginf(policy.log_prob), names.index(NAMES[2]) == log.Y)


def test_an_action_that_the_log_lacks_is_refused(weeks, tmp_path, run):
    frame = pd.read_csv(weeks / "week2.csv")
    frame = frame[frame["item"] != NAMES[0]].assign(mine=0.5)
    frame.to_csv(tmp_path / "log.csv", index=False)
    arguments = ["certify", "column:mine", tmp_path / "log.csv", "--config", json.dumps(MAPPING)]
    status, _, error = run(*arguments, "--baseline", weeks / "old.npz")
    assert (status, "the baseline takes 'news', which the log lacks" in error) == (1, True)


@pytest.mark.parametrize(("frame", "mapping"), [(label_log, LABELS), (list_log, LISTS)], ids=["labels", "lists"])
def test_the_probabilities_of_other_actions(frame, mapping, tmp_path):
    """The labels of a mixture are not independent, so log π does not follow from the marginals."""
    frame().to_csv(tmp_path / "log.csv", index=False)
    config = json.dumps(mapping | {"algorithm": "kl_dro_dr", "explore": 0.3})
    assert main(["learn", f"{tmp_path}/log.csv", "--config", config, "--output", f"{tmp_path}/p.npz"]) == 0
    stored, raw_log = read_policy(tmp_path / "p.npz"), read_raw_log(tmp_path / "log.csv", mapping)
    log = drcrm.read_log(tmp_path / "log.csv", mapping)
    rows = np.arange(len(log.Y)) % 3 > 0
    part = encode(raw_log, log.encoding, rows)
    policy = policy_on_rows(stored, raw_log, rows, part)
    X = contexts_of(raw_log.take(rows), stored.encoding)
    np.testing.assert_allclose(policy.marginals_on(part.X, part.actions), stored.policy.marginals(X), rtol=1e-12)
    if not part.actions.are_choices:  # the worst case under shift needs the mixture itself
        shares = [share for share, _ in policy.components(part.X, part.actions, "")]
        assert shares == [share for share, _ in stored.policy.components(X, part.actions, "")] == [0.7, 0.3]
    np.testing.assert_allclose(policy.log_prob, stored.policy.log_prob(X, part.Y), rtol=1e-9)
    with pytest.raises(InputError, match="the baseline is over"):
        policy_on_rows(stored, raw_log, None, drcrm.BanditLog.from_frame(decisions(50), MAPPING))


def test_guardrails_compare_with_the_baseline(weeks, compare, tmp_path):
    frame = pd.read_csv(weeks / "week2.csv")
    frame["returned"] = (np.arange(ROWS) % 7 == 0) * frame["click"]
    frame.to_csv(tmp_path / "week.csv", index=False)
    rails = {"returns": {"cost": "returned", "at_most": 0.5}, "share": {"cost": "returned", "at_most": "50 %"}}
    config = json.dumps(MAPPING | {"guardrails": rails})
    log, _, stored = log_of_week(weeks, 2)
    new, old = (mean[np.arange(ROWS), log.Y] / log.propensity for mean in means_of(weeks, frame, stored.encoding.names))
    returned = frame["returned"].to_numpy()
    for origin, options in ((0, ["--estimate", "ips"]), (new @ returned / new.sum(), ["--anytime"])):
        arguments = weeks / "new.npz", tmp_path / "week.csv", "--config", config, *options
        rail, share = compare("certify", *arguments)[0]["guardrails"]
        expected = ((new - old) * (returned - origin)).mean()
        assert rail["difference"]["value"] == pytest.approx(expected, abs=1e-12), options
        margin = 0.5 * (origin + (old * (returned - origin)).mean())
        assert share["margin"] == pytest.approx(margin, abs=1e-12), options
    gains = (bound_by_loops(new, 1 - returned, factor=factor, baseline=old) for factor in (1.0, 1.5))
    bound, excess = next(gains), next(gains)
    assert rail["difference"]["bound"] == pytest.approx(-bound, abs=1e-9)
    assert share["difference"]["bound"] == pytest.approx(-0.5 - excess + margin, abs=1e-9)


# Logs of several policies


def test_the_answer_has_the_share_of_each_logging_policy(weeks, tmp_path, answer):
    frame = pd.read_csv(weeks / "week2.csv")
    frame["by"] = np.where(np.arange(ROWS) < 600, "v1", "v2")
    for number, part in enumerate((frame[:900], frame[900:])):
        part.to_csv(tmp_path / f"log{number}.csv", index=False)
    files = [tmp_path / f"log{number}.csv" for number in range(2)]
    config = json.dumps(MAPPING | {"logged_by": "by"})
    arguments = *files, "--config", config, "--report", tmp_path / "r.html"
    view, text = answer("evaluate_policy", weeks / "new.npz", *arguments)
    assert view["log"]["logged_by"] == pytest.approx({"v1": 0.4, "v2": 0.6})
    assert "Logged by: v2 60 %, v1 40 % of the rows." in text
    assert "Logging policies" in (tmp_path / "r.html").read_text(encoding="utf-8")
