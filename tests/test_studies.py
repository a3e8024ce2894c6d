"""The studies: helpers, published tables, and the command and rules that run them."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from workflows import jobs, snakemake, write_config

from drcrm import BanditLog, CostModel
from drcrm.diagnostics.diagnosis import diagnose
from drcrm.errors import InputError
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import KLBall

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def study():
    """Return a function that imports a module of studies/ by name."""
    folder = str(ROOT / "studies")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


def published(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / f"docs/results/{name}.csv")


def test_the_command_joins_the_tables_of_all_runs(tmp_path):
    header = "dataset,seed,sharpness,algorithm,method,value,expected_loss,least,logging"
    rows = ["a,0,1,x,support,0.05,1,1,2", "a,1,1,x,support,0.05,3,3,2"]
    for seed, row in enumerate(rows):
        (tmp_path / str(seed)).write_text(f"{header}\n{row}\n")
    command = [sys.executable, ROOT / "studies", "support", "--rows", tmp_path / "0", tmp_path / "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command += ["--output", tmp_path / "all.csv"]
    done = subprocess.run(map(str, command), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-5:] == ["2.000", "2.000", "2.000", "0.000", "0.000"]
    assert (tmp_path / "all.csv").read_text() == "\n".join([header, *rows, ""])


def test_tables_with_different_columns_are_refused():
    join_tables = runpy.run_path(str(ROOT / "studies/__main__.py"))["join_tables"]
    with pytest.raises(InputError, match="all tables must have the same columns, got a; b"):
        join_tables(["a\n1\n", "b\n1\n"])


def test_the_configured_studies_have_tables_of_their_runs():
    for name, options in yaml.safe_load((ROOT / "config.yaml").read_text())["studies"].items():
        assert (ROOT / f"studies/{name}.py").exists()
        if "runs" in options:
            rows = published(name)
            seeds = {dataset: count for runs in options["runs"].values() for dataset, count in runs.items()}
            assert rows.groupby("dataset")["seed"].nunique().to_dict() == seeds
            assert set(rows["algorithm"]) == set(options["algorithms"])


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
    of_studies, of_theory = {"study_file": 4, "study_table": 3}, {"theory_table": 6, "theory_figure": 9}
    assert jobs(output) == {**once, **of_studies, **of_theory, "provenance": 4}
    assert output.count('"dataset": "digits", "seed": 7, "repetitions": 3}') == 6
    assert """--options '{"repetitions": 3}' --output results/studies/coverage.csv""" in output
    assert '"poem": {"estimator": "POEM", "parameter": "variance_penalty", "grid": [' in output
    assert '--resources resources/studies/obd --options \'{"algorithms": {"cips": {"estimator": "CIPS"' in output
    assert "resources/studies/obd/bts_men.csv.bz2" in output
    assert f'"sha256": "{"0" * 64}"' in output


def test_coverage_settings_have_the_means_that_they_state(study):
    for name, setting in study("coverage").settings().items():
        rng = np.random.default_rng(1)
        means = np.array([setting.draw(rng, 4000).mean() for _ in range(50)])
        assert abs(means.mean() - setting.truth(4000)) < 4 * means.std() / np.sqrt(50), name
        z = setting.draw(rng, 400)
        assert setting.low <= z.min() <= z.max() <= 0


def test_coverage_is_the_share_of_bounds_above_the_truth(study):
    coverage = study("coverage")
    setting = coverage.settings()["0 once in 20, else −1"]
    bounds = coverage.bounds(setting, 50, 20)
    rows = coverage.measure("a", setting, 50, 20).set_index("method")
    for method, values in bounds.items():
        assert rows.loc[method, "coverage"] == np.mean(values >= -0.95)
        assert rows.loc[method, "width"] == pytest.approx(values.mean() + 0.95)
    assert rows.loc["student", "width_to_student"] == 1


def test_published_certificates_reach_their_level(study):
    """Finite-sample bounds everywhere, the others for large n and light tails."""
    coverage, rows = study("coverage"), published("coverage")
    assert len(rows) == len(coverage.settings()) * len(coverage.SIZES) * len(coverage.METHODS)
    assert (rows["repetitions"] == 2000).all()
    is_finite = rows["method"].isin(coverage.FINITE_SAMPLE)
    assert (rows["coverage"] >= rows["confidence"])[is_finite].all()
    light = rows[~is_finite & (rows["tails"] == "light") & (rows["n"] == 4000)]
    assert (abs(light["coverage"] - light["confidence"]) < 4 * light["standard_error"]).all()


def test_mean_coverage_ignores_refused_certificates(study):
    rows = pd.DataFrame({"key": list("aaab"), "width": [0.0, -1, np.nan, 2]})
    means = study("coverage").mean_coverage(rows, ["key"], ["coverage", "refused"]).set_index("key")
    assert means.loc["a"].tolist() == pytest.approx([1 / 2, 1 / 3, np.sqrt(1 / 8)])


def test_small_logs_reports_kept_gains_and_significant_losses(study):
    """One setting keeps 2 and 3 of a gain of 10; the other loses 1 and 1.1."""
    rows = [
        {
            **{"dataset": "a", "seed": seed, "sharpness": eta, "contexts": size, "algorithm": "kl_dro_dr_safe"},
            **{"selection": "improvement_bound", "expected_loss": 20 + change, "logging": 20.0, "least": 10.0},
        }
        for eta, size, changes in ((1, 300, (-2, -3)), (4, 3000, (1, 1.1)))
        for seed, change in enumerate(changes)
    ]
    small_logs = study("small_logs")
    table = small_logs.table(pd.DataFrame(rows)).set_index("sharpness")
    assert table["difference"].tolist() == pytest.approx([-2.5, 1.05])
    assert table["kept"].tolist() == pytest.approx([0.25, -0.105])
    assert (table["p"] < small_logs.LEVEL).tolist() == [False, True]
    summary = small_logs.summary(pd.DataFrame(rows))
    assert "significantly worse than π0, of 2 settings" in summary
    assert summary.splitlines()[-1].split()[-2:] == ["0.25", "-0.11"]


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
    safe = {"estimator": "CIPS", "options": {"estimate": "dr", "start": "model", "safe": True}}
    rows = list(study("small_logs").rows(run, {"safe": safe}, [40, 500], [1], (0.7, 0.2)))
    assert [(row["contexts"], row["all"]) for row in rows[::2]] == [(40, False), (80, True)]
    assert all(row["least"] <= row["expected_loss"] for row in rows)
    kl = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01, 0.1], "options": {"estimate": "dr"}}
    methods = {row["method"] for row in study("support").rows(run, {"kl": kl}, [4], 1)}
    assert methods == set(study("support").VALUES)


@pytest.fixture
def choices():
    """Return a log of one action of three, and its logging policy."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    policy = SoftmaxPolicy(2 * rng.normal(size=(3, 3)))
    A = policy.sample(X, random_state=1)
    cost = -(rng.random(60) < 0.5).astype(float)
    return BanditLog(X, A, np.exp(policy.log_prob(X, A)), cost, n_actions=3), policy


def test_a_pessimistic_model_adds_standard_errors_of_the_regression(study, choices):
    log, _ = choices
    model = CostModel(0.01).fit_log(log)
    pessimistic = study("support").Pessimistic.of(model, log, 2.0).action_effects(log.X, log.actions)
    residual = log.cost - model.effects(log.X)[np.arange(60), log.Y]
    for action in range(3):
        rows = log.X[action == log.Y]
        inverse = np.linalg.inv(rows.T @ rows + 60 * 0.01 * np.diag(abs(log.X).max(axis=0) ** 2))
        error = np.sqrt(np.einsum("ij,jk,ik->i", log.X, inverse, log.X) * np.mean(residual**2))
        assert pessimistic[:, action] == pytest.approx(model.effects(log.X)[:, action] + 2 * error, rel=1e-9)


def test_support_restriction_switch_and_normalised_objective(study, choices):
    log, policy = choices
    support = study("support")
    restricted = support.restrict_to_supported(log, policy)
    probability = policy.marginals(log.X)
    assert restricted.size == (probability[np.arange(60), log.Y] >= 0.05 / 3).sum()
    assert np.array_equal(
        restricted.actions.eligible, (probability >= 0.05 / 3)[np.unique(log.context)][: restricted.n_contexts]
    )
    value, slope = support.Switch(3.0)(np.log([0.2, 0.9]), np.log([0.1, 0.1]))
    assert value == pytest.approx([2, 0])
    assert slope == pytest.approx([2, 0])
    design = LinearPredictor(log, CostModel(0.01).fit_log(log).effects(log.X), trains=True)
    objective = support.Normalised(Objective(design, KLBall(0.01), None, "dr"), 5.0)
    coef, step = np.random.default_rng(0).normal(size=(2, 9))
    _, gradient = objective(coef)
    ends = [objective(coef + sign * 1e-6 * step)[0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient @ step, rel=1e-5)


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


def test_audit_power_counts_the_worst_level(study):
    power = study("audit_power")
    rows = {row["fault"]: row for row in power.audit(power.World(True), "soft", 400, 0)}
    assert not any(rows["none"][level] for level in power.LEVELS)
    assert rows["uniform"]["fails"]
    assert all(sum(row[level] for level in power.LEVELS) <= 1 for row in rows.values())
    few = {row["fault"]: row for row in power.audit(power.World(True), "soft", 49, 0)}
    assert few["uniform"]["untested"]


def test_costs_with_heavy_tails_have_the_means_of_their_laws(study):
    heavy_tails = study("heavy_tails")
    world, rng = heavy_tails.World(), np.random.default_rng(0)
    for law in ("normal", "1 in 5 %", "lognormal, σ = 1", "Pareto, shape 2.5, in 5 %"):
        share, (_, mean) = heavy_tails.LAWS[law]
        cost = world.log(law, -1, 100_000, rng).cost
        assert cost.mean() == pytest.approx(-share * mean, abs=5 * cost.std() / 100_000**0.5)
    rows = heavy_tails.table(2, (60,), ("1 in 30 %",))
    assert len(rows) == 2 * len(world.policies) * len(heavy_tails.BOUNDS)
    assert (rows["false"] <= rows["issued"]).all()
    assert (rows["issued unchecked"].dropna() == 1).all()


def test_published_certificates_with_heavy_tails_are_false_in_at_most_7_percent(study):
    heavy_tails, rows = study("heavy_tails"), published("heavy_tails")
    assert len(rows) == len(heavy_tails.LAWS) * len(heavy_tails.SIZES) * len(heavy_tails.BOUNDS) * 4
    assert rows["false"].max() <= heavy_tails.ALLOWED
    assert rows["false unchecked"].max() > 0.25


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


def test_published_null_logs_are_not_called_better_too_often(study):
    """No share is significantly above 5 %, by a one-sided binomial test at 1 %."""
    rows = published("null_verdicts")
    assert set(rows["log"]) == set(study("null_verdicts").KINDS)
    assert (rows["logs"] == 500).all()
    assert (rows["p_value"] > 0.01).all()
