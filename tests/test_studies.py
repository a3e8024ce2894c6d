"""The studies: helpers, published tables, and the command and rules that run them."""

import json
import os
import runpy
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from workflows import jobs, snakemake, write_config

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.cli.common.candidates import fit_candidates, read_algorithms
from drcrm.diagnostics.diagnosis import diagnose
from drcrm.diagnostics.opened_log import open_log
from drcrm.logs.mapping import as_mapping
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.selection.successive_halving import fit_algorithm

ROOT = Path(__file__).parents[1]
UNPUBLISHED = {"click_logs", "sharp_coverage"}  # configured studies without a table in docs/results


def published(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / f"docs/results/{name}.csv")


def test_the_command_joins_the_tables_of_all_runs(study, tmp_path, monkeypatch, capsys):
    header = "dataset,seed,sharpness,algorithm,method,value,expected_loss,least,logging"
    rows = ["a,0,1,x,support,0.05,1,1,2", "a,1,1,x,support,0.05,3,3,2"]
    for seed, row in enumerate(rows):
        (tmp_path / str(seed)).write_text(f"{header}\n{row}\n")
    monkeypatch.setattr("os.environ", dict(os.environ))  # the command sets threads and kernels
    command = [study("support").__name__, "--rows", tmp_path / "0", tmp_path / "1", "--output", tmp_path / "all.csv"]
    runpy.run_path(str(ROOT / "studies/__main__.py"))["main"]([*map(str, command)])
    assert capsys.readouterr().out.split()[-5:] == ["2.000", "2.000", "2.000", "0.000", "0.000"]
    assert (tmp_path / "all.csv").read_text() == "\n".join([header, *rows, ""])


def test_the_configured_studies_have_tables_of_their_runs(study):
    for name, options in yaml.safe_load((ROOT / "config.yaml").read_text())["studies"].items():
        assert study(name).__doc__
        assert (ROOT / f"docs/results/{name}.csv").exists() == (name not in UNPUBLISHED), name
        if "runs" in options and name not in UNPUBLISHED:
            rows = published(name)
            seeds = {dataset: count for runs in options["runs"].values() for dataset, count in runs.items()}
            assert rows.groupby("dataset")["seed"].nunique().to_dict() == seeds
            assert set(rows["algorithm"]) == set(options["algorithms"])


@pytest.mark.slow
def test_the_workflow_plans_the_jobs_of_studies_and_of_the_theory(tmp_path):
    none = dict.fromkeys(("scene", "yeast", "satimage", "pendigits"), 0)
    support = {"runs": {"sharpness": none, "demo": {"digits": 1}}, "algorithms": ["poem"]}
    digests = {f"{policy}_{name}.csv.bz2": "0" * 64 for policy in ("bts", "random") for name in ("men", "women")}
    obd = {"files": digests, "algorithms": ["cips"]}
    studies = {"support": support, "coverage": {"repetitions": 3}, "obd": obd}
    theory = {"datasets": ["digits"], "repetitions": 3, "seed": 7}
    config = write_config(tmp_path, {"mirror": "m", "studies": studies, "theory": theory})
    targets = "support_study", "coverage_study", "obd_study", "theory"
    output = snakemake(tmp_path, config, *targets, "--dry-run", "--printshellcmds")
    once = dict.fromkeys(("fetch", "split", "log_crf", "study_run", *targets), 1)
    of_studies, of_theory = {"study_file": 4, "study_table": 3}, {"theory_table": 7, "theory_figure": 10}
    assert jobs(output) == {**once, **of_studies, **of_theory, "provenance": 4}
    assert output.count('"dataset": "digits", "seed": 7, "repetitions": 3}') == 7
    assert """--options '{"repetitions": 3}' --output results/studies/coverage.csv""" in output
    assert '"poem": {"estimator": "POEM", "parameter": "variance_penalty", "grid": [' in output
    assert '--resources resources/studies/obd --options \'{"algorithms": {"cips": {"estimator": "CIPS"' in output
    assert "resources/studies/obd/bts_men.csv.bz2" in output
    assert f'"sha256": "{"0" * 64}"' in output


def test_published_certificates_reach_their_level(study):
    """Finite-sample bounds everywhere, the others for large n and light tails."""
    coverage, rows = study("coverage"), published("coverage")
    assert len(rows) == len(coverage.settings()) * len(coverage.SIZES) * len(coverage.METHODS)
    assert (rows["repetitions"] == 2000).all()
    is_finite = rows["method"].isin(coverage.FINITE_SAMPLE)
    assert (rows["coverage"] >= rows["confidence"])[is_finite].all()
    light = rows[~is_finite & (rows["tails"] == "light") & (rows["n"] == 4000)]
    assert (abs(light["coverage"] - light["confidence"]) < 4 * light["standard_error"]).all()


def test_a_small_log_has_each_context_once(study, tmp_path):
    write_npz = import_module("drcrm.files").write_npz
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    for part in ("train", "test"):
        write_npz(tmp_path / f"{part}.npz", X=X, labels=classes, n_actions=np.array(3))
    policy = SoftmaxPolicy(rng.normal(size=(3, 3)))
    run = study("finished").Run("toy", 0, tmp_path, policy)
    train, heldout, sharper = run.draw_log(4, 1, 40, (0.7, 0.2))
    assert (train.size, heldout.size) == (30, 10)
    assert (train.recount(train.count).n_contexts, heldout.recount(heldout.count).n_contexts) == (30, 10)
    assert sharper.coef == pytest.approx(4 * policy.coef)
    certain, _, _ = run.draw_log(4, 1, 40, (1, 0))
    assert np.array_equal(certain.Y, train.Y)
    assert not np.array_equal(certain.cost, train.cost)
    doubly_robust = {"estimate": "dr", "start": "model"}
    safe = {"estimator": "CIPS", "options": {**doubly_robust, "safe": True}}
    rows = list(study("small_logs").rows(run, {"safe": safe}, [40, 500], [1], (0.7, 0.2)))
    assert [(row["contexts"], row["all"]) for row in rows[::2]] == [(40, False), (80, True)]
    assert all(row["least"] <= row["expected_loss"] for row in rows)
    linear = {"dr": {"estimator": "CIPS", "options": doubly_robust}}
    trees = {name: {"classifier": name} for name in ("trees", "cost_trees")}
    rows = pd.DataFrame(study("click_logs").rows(run, linear | trees, [40], [1], (0.7, 0.2))).set_index("algorithm")
    assert list(rows.index) == ["dr", "trees", "cost_trees", "candidate", "learn"]
    assert rows.loc["learn", "expected_loss"] in (rows.loc["candidate", "expected_loss"], rows.loc["dr", "logging"])
    assert ((rows["expected_loss"] > 0) & (rows["expected_loss"] < 1)).all()


def test_the_study_of_click_logs_chooses_like_learn(study, tmp_path):
    null, path = study("null_verdicts"), tmp_path / "log.csv"
    null.draw_log("none", np.random.default_rng(0), 300).to_csv(path, index=False)
    opened = open_log(path, as_mapping(null.MAPPING), lambda message: None, seed=0)
    algorithms = read_algorithms(opened.mapping, has_scores=True)
    expected = fit_candidates(opened, algorithms, lambda message: None).best
    results = [fit_algorithm(opened.train, opened.log, algorithm) for algorithm in algorithms]
    policy, is_shown = study("click_logs").choose(results)
    assert is_shown == expected.is_shown
    probabilities = (choice.marginals(opened.log.X) for choice in (policy, expected.policy))
    assert np.array_equal(*probabilities)


def test_business_logs_have_the_stated_means(study):
    """Rewards have the stated mean, the best policy gains most, and boosting gains more than nothing."""
    business = study("business_logs")
    for kind, draw in business.DRAW.items():
        rng = np.random.default_rng(0)
        contexts, logging, mean = draw(20_000, rng)
        assert logging.sum(axis=1) == pytest.approx(1)
        assert len(contexts) == len(mean) == 20_000
        reward, place = business.draw_rewards(kind, mean[:, 0], rng), np.arange(20_000)
        assert reward.mean() == pytest.approx(mean[:, 0].mean(), abs=4 * reward.std() / np.sqrt(20_000))
        action = study("synthetic").draw_actions(logging, rng)
        log = contexts.assign(action=action, reward=business.draw_rewards(kind, mean[place, action], rng))
        boosted = mean[place, business.boost(log, [*contexts], contexts)].mean()
        assert (logging * mean).sum(axis=1).mean() < boosted < mean.max(axis=1).mean()
    assert contexts["store"].nunique() == business.STORES
    assert contexts.isna().to_numpy().mean() == pytest.approx(0.15 * 19 / 20, abs=0.01)


def test_diagnostics_name_the_planted_faults(study):
    verdicts = study("verdicts")
    world = verdicts.World(is_null=False)
    log = world.log("soft", np.random.default_rng(0), 400)
    names = {diagnostic.name for diagnostic in diagnose(log, world.policies["good"]).diagnostics}
    assert {name for fault in verdicts.FAULTS.values() for name in fault} <= names
    truth = world.differences("missing")
    assert truth["good"] < -0.05 < 0 < truth["bad"]
    [good, bad] = verdicts.reach_verdicts(world, "missing", truth, 0)
    assert (good["verdict"], good["named"], good["unfounded"]) == ("the log cannot say", True, False)
    assert np.isnan(bad["named"])


def test_guardrails_at_their_margin_are_rarely_shown_to_hold():
    rows = published("guardrails").set_index("slack")
    assert (rows["logs"] >= 500).all()
    assert (rows.loc[0, "better"] <= 34).all()
    assert (rows.loc[3, "better"] >= 0.75 * rows.loc[3, "logs"]).all()
    text = (ROOT / "docs/user-guide/own-logs.md").read_text(encoding="utf-8")
    counts = [
        "{} (a rare cost) and {} (revenue)".format(*rows.loc[0, "better"]),
        "{} and {}".format(*rows.loc[3, "better"]),
    ]
    assert all(count in " ".join(text.split()) for count in counts), counts


@pytest.mark.slow
def test_a_guardrail_at_its_margin_is_seldom_shown_to_hold(study):
    rows = study("guardrails").table(8).set_index(["guardrail", "slack"])
    assert (rows["main"] == 8).all()
    assert rows.loc[(slice(None), 0), "better"].max() <= 3  # a binomial law at 5 % exceeds 3 in 1 of 2500 runs
    assert rows.loc[(slice(None), 3), "better"].min() >= 4  # at 80 %, it is below 4 in 1 of 100


def test_the_guardrail_study_knows_the_true_differences(study, tmp_path):
    """Estimates agree with the stated differences, and margins have their slack."""
    rails, run_command = study("guardrails"), study("synthetic").run_command
    log = rails.draw_log(4000, 0)
    world = rails.means(log[["x", "y"]].to_numpy())
    assert log["p"].to_numpy() == pytest.approx(world["logging"][np.arange(4000), log["a"]])
    log.to_csv(tmp_path / "log.csv", index=False)
    output = ["--output", str(tmp_path / "policy.npz"), "--config", json.dumps(rails.MAPPING)]
    run_command(["learn", str(tmp_path / "log.csv"), *output])
    truth, mean = rails.true_differences(tmp_path / "policy.npz")
    assert mean == pytest.approx(log["revenue"].mean(), rel=0.1)
    errors = {"unsubscribed": 0.002, "revenue": 0.02}
    answer = rails.certify(tmp_path, rails.guardrails(truth, mean, errors), 1)
    for judged in answer["guardrails"]:
        value, error = (judged["difference"][key] for key in ("value", "standard_error"))
        expected = truth[judged["outcome"]] * (-1 if judged["reward"] else 1)
        assert abs(value - expected) < 4 * error
        outcome, slack = judged["name"].split()
        assert judged["margin"] - expected == pytest.approx(int(slack) * errors[outcome], abs=0.05 * error)


def test_published_certificates_with_heavy_tails_are_false_in_at_most_7_percent(study):
    heavy_tails, rows = study("heavy_tails"), published("heavy_tails")
    assert len(rows) == len(heavy_tails.LAWS) * len(heavy_tails.SIZES) * len(heavy_tails.BOUNDS) * 4
    assert rows["false"].max() <= heavy_tails.ALLOWED
    assert rows["false unchecked"].max() > 0.25


def test_published_exploring_logs_get_an_answer(study):
    """*Better* is seldom false, an answer is the rule where rows suffice, and uniform logs have no rare actions."""
    rows, cells = published("epsilon_greedy"), study("epsilon_greedy").cells()
    assert [tuple(row) for row in rows[list(cells[0]._fields)].to_numpy()] == [tuple(cell) for cell in cells]
    assert rows["false"].max() <= 0.1
    assert rows["false"].mean() <= 0.05
    assert (rows["cannot"] * rows["sampled"]).sum() <= 0.1 * rows["sampled"].sum()
    assert not rows.loc[rows["kind"] == "uniform", "rare"].any()
    [explored, *_] = (cell for cell in cells if cell.kind == "explored")
    result = study("epsilon_greedy").judge(explored, 0)
    assert (result["verdict"], result["false"], result["rare"]) == ("not shown", False, False)


def test_published_null_logs_are_not_called_better_too_often(study):
    """No share is significantly above 5 %, by a one-sided binomial test at 1 %."""
    rows = published("null_verdicts")
    assert set(rows["log"]) == set(study("null_verdicts").KINDS)
    assert (rows["logs"] >= 200).all()
    assert (rows["p_value"] > 0.01).all()


def test_published_certificates_hold_although_outcomes_changed(study):
    rows = published("late_outcomes")
    assert rows["logs"].sum() >= 200
    assert rows["learned"].max() == 0
    is_shuffled = (rows["kind"] == "seven values") & (rows["change"] == "shuffled")
    assert (rows["certified"] == np.where(is_shuffled, 0, 1)).all()
    certified = rows[~is_shuffled]
    for name in ("holds", "difference_holds"):
        assert certified[name] @ certified["logs"] >= 0.93 * certified["logs"].sum()


def test_published_intervals_of_the_default_cover_the_cost(study):
    rows = published("estimate_coverage").set_index(["kind", "policy", "estimate"])
    assert set(rows.index.unique("kind")) == {"digits", "satimage", "scene", "shop"}
    assert (rows["logs"] == 500).all()
    by_estimate = rows["coverage"].unstack("estimate")
    assert by_estimate["auto"].equals(by_estimate["dr"])
    assert by_estimate["dr"].groupby("kind").mean().min() >= 0.93
    assert by_estimate["dm"].max() < 0.5, "the page says that its interval does not include the model's error"
    errors = study("estimate_coverage").relative_errors(rows.reset_index())
    assert errors["auto"] < errors["clipped_ips"]


def test_the_published_power_agrees_with_simulated_logs():
    rows = published("plan_power")
    assert len(rows) == 12
    assert (rows["logs"] == 2000).all()
    gap = 100 * (rows["predicted"] - rows["simulated"]).abs().max()
    assert gap <= 5
    text = " ".join((ROOT / "docs/user-guide/every-look.md").read_text(encoding="utf-8").split())
    assert f"within {gap:.1f} points of the power in [2000 simulated logs]" in text


def test_the_shift_study_knows_its_truth_and_learns_robust_policies(study):
    """The robust rewards of the target are published: .0173, −.1024 and −.1950. A small run has values everywhere."""
    shift = study("shift_accuracy")
    target = np.exp(shift.NODES @ shift.ROOTS)
    target /= target.sum(axis=1, keepdims=True)
    rewards = [-shift.robust_cost(target, radius) for radius in shift.RADII]
    assert rewards == pytest.approx([0.0173, -0.1024, -0.1950], abs=5e-5)
    logging = np.exp(2 * shift.NODES @ shift.ROOTS)
    means = (logging / logging.sum(axis=1, keepdims=True) * (shift.NODES @ shift.ROOTS)).sum(axis=1)
    assert -shift.draw_log(20_000, 0).cost.mean() == pytest.approx(shift.NODE_WEIGHTS @ means, abs=0.015)
    rows = shift.table(2, (2000,), ((1000, "estimated"), (2000, "known")))
    assert rows["missing"].sum() == 0
    learned = rows[rows["part"] == "learning"].set_index(["estimate", "radius"])["value"]
    assert learned["dr"].to_numpy() == pytest.approx([0.72, 0.519, 0.439, 0.379], abs=0.03)
    errors = rows[rows["part"] == "evaluation"]
    assert (errors["square"] < 0.02).all()
    assert (errors["variance"] > 0).all()
    assert len(shift.summary(rows).splitlines()) > 10


def test_the_study_of_coverage_under_shift_knows_its_truth(study, monkeypatch):
    """R_κ agrees with closed forms, and at the true Γ*, the worst case in a large log is the logging policy's cost."""
    coverage, accuracy = study("shift_coverage"), study("shift_accuracy")
    monkeypatch.setattr(coverage, "NODES", (np.arange(20) + 0.5) / 10 - 1)
    monkeypatch.setattr(coverage, "QUANTILES", (np.arange(200) + 0.5) / 200)
    policy = np.exp(3 * accuracy.NODES @ accuracy.ROOTS)
    policy /= policy.sum(axis=1, keepdims=True)
    for radius in coverage.RADII:
        worst = coverage.World("normal").robust_cost(3, radius)
        assert worst == pytest.approx(accuracy.robust_cost(policy, radius), abs=2e-3)
    for kind, estimate in (("clicks", "snips"), ("delays", "dr")):
        world = coverage.World(kind)
        log, breakeven = world.draw(50_000, 0), world.true_breakeven(estimate)
        model = world.model if estimate == "dr" else None
        probability = coverage.probabilities(log.X[:, :2], 3)
        result = coverage.sensitivity(probability, log, breakeven, estimate, model)
        gap, error = result.worst - log.cost.mean(), (result.bound - result.worst + log.cost.mean()) / 1.645
        assert abs(gap) < 4 * error
    rows = coverage.table(3, (500,), ("clicks",))
    assert len(rows) == 2 * (2 * len(coverage.RADII) + 1)
    assert rows["coverage"].mean() > 0.5


def test_the_published_bound_at_every_look_is_rarely_false():
    rows = published("anytime")
    assert set(rows["kind"]) == {"clicks", "revenue", "heavy weights", "missing actions", "adaptive", "groups"}
    assert (rows["logs"] == 500).all()
    assert (rows["false"] * rows["logs"]).max() <= 34


def test_the_shop_of_the_loop_has_its_click_rates_and_looks_like_certify(study, tmp_path):
    """The bound that decides a look equals the command's, and the second log has the probabilities of the policy."""
    loop, rng = study("loop"), np.random.default_rng(0)
    policy = tmp_path / "policy.npz"
    if loop.learn(loop.write_log(tmp_path, "week1", loop.draw_log("gain", rng)), policy) != "better":
        policy = tmp_path / "policy.candidate.npz"
    stored = loop.read_policy(policy)
    weeks = [loop.draw_log("gain", rng) for _ in range(2)]
    files = [loop.write_log(tmp_path, f"week{number}", week) for number, week in enumerate(weeks, 2)]
    answer = loop.run("certify", policy, *files, "--anytime")
    anytime, usual = loop.difference_bounds(stored, pd.concat(weeks))
    assert anytime == pytest.approx(answer["running"]["difference_bound"], abs=1e-12)
    single = loop.run("certify", policy, *files)["candidates"][0]["difference"]
    assert usual == pytest.approx(single["bound"], abs=1e-12)
    assert loop.is_shown(policy, files) == (anytime < 0)
    log = pd.concat(weeks)
    is_best = np.searchsorted(loop.BANNERS, log["banner"]) == np.searchsorted(loop.DEVICES, log["device"])
    for rate, clicks in ((loop.BEST, log["click"][is_best]), (loop.OTHER, log["click"][~is_best])):
        assert clicks.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate / len(clicks)))
    second = loop.draw_log("gain", rng, policy)
    learned = stored.policy.marginals(stored.encoding.contexts(second))
    place = np.searchsorted(loop.BANNERS, second["banner"])
    assert second["p"].to_numpy() == pytest.approx(learned[np.arange(loop.ROWS), place], abs=1e-12)
    assert second["p"].min() >= stored.policy.explore / 3
    counts = [(place == number).sum() for number in range(3)]
    assert counts == pytest.approx(learned.sum(axis=0), abs=4 * np.sqrt(loop.ROWS / 4))
    assert loop.true_gain("gain", stored) == pytest.approx(-single["value"], abs=4 * single["standard_error"])


@pytest.mark.slow
def test_the_loop_stops_if_there_is_a_gain(study):
    rows = study("loop").table(5).set_index("world")
    assert rows.loc["no gain", "stopped"] == 0
    assert rows.loc["gain", "stopped"] >= 3  # at 80 %, it is below 3 in 1 of 17 runs
    assert rows.loc["gain", "then the log cannot say"] == 0
    rounds = rows[[name for name in rows if name.startswith("then ")]].sum(axis=1)
    weeks = rows[[name for name in rows if name.startswith("week") and name != "week1"]].sum(axis=1)
    assert (rounds == rows["stopped"]).all()
    assert (weeks == rows["stopped"]).all()
    assert rows.loc["no gain", "gain"] == 0


def test_the_published_loop_keeps_its_promises():
    rows = published("loop").set_index("world")
    assert (rows["repetitions"] >= 100).all()
    assert rows.loc["no gain", "stopped"] <= 0.05 * rows.loc["no gain", "repetitions"]
    assert rows.loc["gain", "stopped"] >= 0.8 * rows.loc["gain", "repetitions"]
    cannot, stopped = rows.loc["gain", ["then the log cannot say", "stopped"]]
    text = (ROOT / "docs/user-guide/loop.md").read_text(encoding="utf-8")
    assert (
        f"in {rows.loc['no gain', 'usual']}.\n- **{stopped} of {rows.loc['gain', 'repetitions']} deploy by week 6**"
        in text
    )
    assert cannot <= 0.05 * stopped
    better, not_shown = rows.loc["gain", ["then better", "then not shown"]]
    assert f"{cannot} of {stopped} second rounds" in text
    assert f"{better} end in *better*, {not_shown} in *not shown*" in text


@pytest.mark.slow
def test_the_anytime_study_draws_logs_whose_terms_have_the_true_mean(study):
    anytime = study("anytime")
    for kind in anytime.KINDS:
        world = anytime.draw_world(kind, 0, 400)
        index = np.arange(400)
        assert world.log.propensity == pytest.approx(world.logging[index, world.log.Y])
        rewards = -world.log.cost
        assert 0 <= rewards.min() <= rewards.max() <= world.largest
        assert -world.largest < world.truth[0] < 0
    x = np.random.default_rng(0).normal(size=10**6)
    policy, _ = anytime.policies("clicks", x)
    assert anytime.expected_costs("clicks", 1.0)[0] == pytest.approx(
        -(policy * anytime.click_rates(x)).sum(axis=1).mean(), abs=1e-4
    )
    rows = anytime.table(2, ("clicks", "adaptive", "groups"), 400)
    assert list(rows["estimate"]) == ["ips", "ips, paired", "dr", "dr, paired", "ips", "dr", *rows["estimate"][:4]]
    assert rows["false"].max() == 0
    world = anytime.draw_world("missing actions", 0, 400)
    for estimate, baseline in anytime.ESTIMATES:
        smallest = min(anytime.sequence_bound(world, estimate, baseline, rows) for rows in range(50, 401, 50))
        for truth in (smallest - 1e-9, smallest + 1e-9):
            watched = anytime.watch_sequence(world, estimate, baseline, truth)
            assert watched["sequence"] == (smallest < truth), "no bound of the command that may be false is skipped"


@pytest.mark.slow
def test_null_logs_have_their_faults(study):
    null = study("null_verdicts")
    logs = {kind: null.draw_log(kind, np.random.default_rng(0)) for kind in null.KINDS}
    assert all(len(log) == null.ROWS for log in logs.values())
    assert logs["duplicated"].duplicated().sum() >= null.ROWS // 2
    assert (logs["leaked"]["copy"] == logs["leaked"]["reward"]).all()
    assert logs["same action"].groupby("visitor")["action"].nunique().max() == 1
    assert logs["jittered"].drop(columns="age").duplicated().sum() == null.ROWS * 4 // 5
    assert 20 < (logs["rare losses"]["reward"] < 0).sum() < 90
    assert null.verdict("leaked", 0) == "the log cannot say"


def test_rules_that_were_not_logged_change_the_draw(study):
    """In half of the contexts of a sign rule, the first action is drawn more often than logged, elsewhere less."""
    log = study("unlogged_rules").draw_log("sign rule", 20_000, 0)
    ratio = (log["action"] == 0) / log["p"]
    is_more = log["x0"] * log["x1"] > 0
    assert ratio[is_more].mean() > 1.3 > 0.7 > ratio[~is_more].mean()
    assert np.corrcoef(log["reward"], is_more)[0, 1] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["digits", "shop"])
def test_logs_of_known_policies_have_the_expected_cost(kind, study):
    """IPS, which is unbiased, is near the stated cost in the mean over 20 logs."""
    worlds = {name: (world, truth) for name, world, truth in study("estimate_coverage").kinds(None, [])}
    world, truth = worlds[kind]
    errors = []
    for seed in range(20):
        log, policies = world.draw(np.random.default_rng(seed))
        errors.append([off_policy_value(policies[name], log, "ips") - truth[name] for name in truth])
    assert np.abs(np.mean(errors, axis=0) / (np.std(errors, axis=0, ddof=1) / np.sqrt(20))).max() < 4


@pytest.mark.slow
def test_the_power_study_plans_logs_with_the_true_difference(study):
    power = study("plan_power")
    for kind in power.KINDS:
        log, tested, settings = power.tested_policy(kind)
        z = tested.terms(log)
        assert z.mean() == pytest.approx(-tested.gain, abs=4 * z.std() / np.sqrt(len(z)))
        explored, *_ = power.draw(kind, 100_000, 1.0, 0)
        assert explored.propensity == pytest.approx(1 / 3)
        difference = explored.cost.mean() - log.cost.mean()
        assert difference == pytest.approx(settings.cost, abs=4 * log.cost.std() * np.sqrt(1 / len(z) + 1e-5))
    shown = [power.is_shown("clicks", "one", 3000, 0.0, 1, seed) for seed in range(5)]
    assert sum(shown) >= 4
