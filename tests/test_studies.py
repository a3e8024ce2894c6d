"""The studies beside the experiments: what their own helpers compute, and the command that runs them."""

from __future__ import annotations

import os
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
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import KLBall

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def imported():
    """A module of studies/ by its name."""
    folder = str(ROOT / "studies")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


def study(*arguments: object) -> subprocess.CompletedProcess:
    """What the command of a study says."""
    command = [sys.executable, ROOT / "studies", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(map(str, command), env=environment, capture_output=True, text=True, check=False)


def test_rows_of_runs_are_gathered_as_they_are(tmp_path):
    head = "dataset,seed,sharpness,algorithm,method,value,expected_loss,least,logging"
    first, second = "a,0,1,x,support,0.05,1,1,2", "a,1,1,x,support,0.05,3,3,2"
    for name, text in {"first": f"{head}\n{first}\n", "second": f"{head}\n{second}\n", "odd": "seed\n1\n"}.items():
        (tmp_path / name).write_text(text)
    rows = [tmp_path / "first", tmp_path / "second"]
    done = study("support", "--rows", *rows, "--output", tmp_path / "all.csv")
    assert done.stdout.split()[-5:] == ["2.000", "2.000", "2.000", "0.000", "0.000"]
    assert (tmp_path / "all.csv").read_text() == f"{head}\n{first}\n{second}\n"
    done = study("support", "--rows", *rows, tmp_path / "odd", "--output", tmp_path / "none.csv")
    assert (done.returncode, done.stderr) == (1, f"studies: rows of different columns: {head}; seed\n")


def test_the_studies_of_the_configuration_have_tables_of_the_runs_it_names():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())["studies"]
    for name, options in config.items():
        assert (ROOT / f"studies/{name}.py").exists()
        if "runs" in options:
            rows = pd.read_csv(ROOT / f"docs/results/{name}.csv")
            seeds = {dataset: count for of in options["runs"].values() for dataset, count in of.items()}
            assert rows.groupby("dataset")["seed"].nunique().to_dict() == seeds
            assert set(rows["algorithm"]) == set(options["algorithms"])


def test_a_study_makes_the_runs_that_it_reads_and_has_its_options(tmp_path):
    none = dict.fromkeys(("scene", "yeast", "satimage", "pendigits"), 0)
    support = {"runs": {"sharpness": none, "demo": {"digits": 1}}, "algorithms": ["poem"]}
    config = write_config(tmp_path, {"studies": {"support": support, "coverage": {"repetitions": 3}}})
    asked = "support_study", "coverage_study"
    output = snakemake(tmp_path, config, *asked, "--dry-run", "--printshellcmds")
    once = ("fetch", "split", "log_crf", "study_run", *asked)
    assert jobs(output) == {**dict.fromkeys(once, 1), "study_table": 2, "provenance": 2}
    assert """--options '{"repetitions": 3}' --output results/studies/coverage.csv""" in output
    assert '"poem": {"estimator": "POEM", "parameter": "variance_penalty", "grid": [' in output


def test_the_truth_of_every_setting_is_the_mean_of_its_costs(imported):
    coverage = imported("coverage")
    for name, setting in coverage.settings().items():
        rng = np.random.default_rng(1)
        drawn = np.array([setting.draw(rng, 4000).mean() for _ in range(50)])
        error = drawn.std() / np.sqrt(50)
        assert abs(drawn.mean() - setting.truth(4000)) < 4 * error, name
        z = setting.draw(rng, 400)
        assert z.shape == (400,)
        assert setting.low <= z.min() <= z.max() <= 0


def test_coverage_counts_the_bounds_that_hold(imported):
    coverage = imported("coverage")
    setting = coverage.settings()["0 once in 20, else −1"]
    found = coverage.bounds(setting, 50, 40)
    rows = coverage.measure("a", setting, 50, 40).set_index("method")
    assert set(rows.index) == set(found)
    for method, values in found.items():
        assert rows.loc[method, "coverage"] == np.mean(values >= -0.95)
        assert rows.loc[method, "width"] == pytest.approx(values.mean() + 0.95)
    assert rows.loc["student", "width_to_student"] == 1


def test_certificates_hold_as_often_as_they_say(imported):
    """In docs/results/coverage.csv: those of finite samples everywhere, the others where n is large and tails light."""
    coverage = imported("coverage")
    rows = pd.read_csv(ROOT / "docs/results/coverage.csv")
    assert set(rows["setting"]) == set(coverage.settings())
    assert len(rows) == len(coverage.settings()) * len(coverage.SIZES) * len(coverage.METHODS)
    assert (rows["repetitions"] == 2000).all()
    finite = rows["method"].isin(coverage.FINITE_SAMPLE)
    assert (rows["coverage"] >= rows["confidence"])[finite].all()
    light = rows[~finite & (rows["tails"] == "light") & (rows["n"] == 4000)]
    assert (abs(light["coverage"] - light["confidence"]) < 4 * light["standard_error"]).all()


def test_what_is_kept_of_a_gain_and_what_is_worse_than_the_logging_policy(imported):
    """On one setting by 2 and 3 of a gain of 10, on the other 1 to 2 above π0's loss."""
    rows = [
        {
            **{"dataset": "a", "seed": seed, "sharpness": eta, "contexts": size, "algorithm": "kl_dro_dr_safe"},
            **{"selection": "improvement_bound", "expected_loss": 20 + more, "logging": 20.0, "least": 10.0},
        }
        for eta, size, by_seed in ((1, 300, (-2, -3)), (4, 3000, (1, 1.1)))
        for seed, more in enumerate(by_seed)
    ]
    small_logs = imported("small_logs")
    found = small_logs.table(pd.DataFrame(rows)).set_index("sharpness")
    assert found["difference"].tolist() == pytest.approx([-2.5, 1.05])
    assert found["kept"].tolist() == pytest.approx([0.25, -0.105])
    assert (found["p"] < small_logs.LEVEL).tolist() == [False, True]
    text = small_logs.summary(pd.DataFrame(rows))
    assert "significantly worse than π0, of 2 settings" in text
    assert text.splitlines()[-1].split()[-2:] == ["0.25", "-0.11"]


def test_a_small_log_has_its_contexts_once(imported, tmp_path):
    small_logs, write_npz = imported("small_logs"), imported("drcrm.files").write_npz
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    for part in ("train", "test"):
        write_npz(tmp_path / f"{part}.npz", X=X, labels=classes, n_actions=np.array(3))
    known = {"dataset": "toy", "seed": 0, "resources": tmp_path}
    policy = SoftmaxPolicy(rng.normal(size=(3, 3)))
    run = imported("finished").Run(**known, logging=policy)
    train, heldout, sharper = run.logged_again(4, 1, 40, (0.7, 0.2))
    assert (train.size, heldout.size) == (30, 10)
    assert (train.recount(train.count).n_contexts, heldout.recount(heldout.count).n_contexts) == (30, 10)
    assert sharper.coef == pytest.approx(4 * policy.coef)
    certain, _, _ = run.logged_again(4, 1, 40, (1, 0))
    assert np.array_equal(certain.Y, train.Y)
    assert not np.array_equal(certain.cost, train.cost)
    found = list(
        small_logs.rows(
            run,
            {"safe": {"estimator": "CIPS", "options": {"estimate": "dr", "start": "model", "safe": True}}},
            sizes=[40, 500],
            sharpness=[1],
            click_rates=(0.7, 0.2),
        )
    )
    assert [(each["contexts"], each["all"]) for each in found[::2]] == [(40, False), (80, True)]
    assert all(each["least"] <= each["expected_loss"] for each in found)


@pytest.fixture
def choices():
    """A log of one action of three, and the π0 that logged it."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    policy = SoftmaxPolicy(2 * rng.normal(size=(3, 3)))
    A = policy.sample(X, random_state=1)
    cost = -(rng.random(60) < 0.5).astype(float)
    return BanditLog(X, A, np.exp(policy.log_prob(X, A)), cost, n_actions=3), policy


def test_the_standard_error_of_a_modelled_cost_is_that_of_its_regression(imported, choices):
    log, _ = choices
    model = CostModel(0.01).fit_log(log)
    doubted = imported("support").Pessimistic.of(model, log, 2.0).action_effects(log.X, log.actions)
    residual = log.cost - model.effects(log.X)[np.arange(60), log.Y]
    for action in range(3):
        rows = log.X[action == log.Y]
        inverse = np.linalg.inv(rows.T @ rows + 60 * 0.01 * np.diag(abs(log.X).max(axis=0) ** 2))
        error = np.sqrt(np.einsum("ij,jk,ik->i", log.X, inverse, log.X) * np.mean(residual**2))
        assert doubted[:, action] == pytest.approx(model.effects(log.X)[:, action] + 2 * error, rel=1e-9)


def test_other_ways_to_distrust_a_model(imported, choices):
    log, policy = choices
    support = imported("support")
    kept = support.restricted(log, policy)
    probability = policy.marginals(log.X)
    assert kept.size == (probability[np.arange(60), log.Y] >= 0.05 / 3).sum()
    assert np.array_equal(kept.actions.eligible, (probability >= 0.05 / 3)[np.unique(log.context)][: kept.n_contexts])
    value, slope = support.Switch(3.0)(np.log([0.2, 0.9]), np.log([0.1, 0.1]))
    assert value == pytest.approx([2, 0])
    assert slope == pytest.approx([2, 0])
    design = LinearPredictor(log, CostModel(0.01).fit_log(log).effects(log.X), trains=True)
    objective = support.Normalised(Objective(design, KLBall(0.01), None, "dr"), 5.0)
    coef, step = np.random.default_rng(0).normal(size=(2, 9))
    _, gradient = objective(coef)
    ends = [objective(coef + sign * 1e-6 * step)[0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient @ step, rel=1e-5)


def test_the_faults_of_verdicts_are_named_by_diagnostics_that_there_are(imported):
    verdicts = imported("verdicts")
    world = verdicts.World(is_null=False)
    log = world.log("soft", np.random.default_rng(0))
    names = {each.name for each in diagnose(log, world.policies["good"]).diagnostics}
    assert {each for named in verdicts.FAULTS.values() for each in named} <= names
    truth = world.differences("missing")
    assert truth["good"] < -0.05 < 0 < truth["bad"]
    [good, bad] = verdicts.judged(world, "missing", truth, 0)
    assert (good["verdict"], good["named"], good["unfounded"]) == ("the log cannot say", True, False)
    assert np.isnan(bad["named"])


def test_the_power_of_the_audit_is_counted_by_the_worst_level(imported):
    power = imported("audit_power")
    rows = {(each["rows"], each["fault"]): each for each in power.audited(power.World(True), "soft", 400, 0)}
    assert [each[level] for each in (rows[400, "none"],) for level in power.LEVELS] == [False] * 3
    assert rows[400, "uniform"]["fails"]
    assert all(sum(each[level] for level in power.LEVELS) <= 1 for each in rows.values())
    few = {each["fault"]: each for each in power.audited(power.World(True), "soft", 49, 0)}
    assert few["uniform"]["untested"]


def test_costs_of_the_laws_of_heavy_tails_have_their_means(imported):
    heavy_tails = imported("heavy_tails")
    world, rng = heavy_tails.World(), np.random.default_rng(0)
    for law in ("normal", "1 in 5 %", "lognormal, σ = 1", "Pareto, shape 2.5, in 5 %"):
        share, (_, mean) = heavy_tails.LAWS[law]
        cost = world.log(law, -1, 100_000, rng).cost
        assert cost.mean() == pytest.approx(-share * mean, abs=5 * cost.std() / 100_000**0.5)
    rows = heavy_tails.table(3, (60,), ("1 in 30 %",))
    assert len(rows) == 2 * len(world.policies) * len(heavy_tails.BOUNDS)
    assert (rows["false"] <= rows["issued"]).all()
    assert (rows["issued unchecked"].dropna() == 1).all()


def test_certificates_of_heavy_tails_are_false_in_at_most_7_percent_of_logs(imported):
    """In docs/results/heavy_tails.csv, in every cell; without the check in far more."""
    heavy_tails = imported("heavy_tails")
    rows = pd.read_csv(ROOT / "docs/results/heavy_tails.csv")
    assert set(rows["law"]) == set(heavy_tails.LAWS)
    assert len(rows) == len(heavy_tails.LAWS) * len(heavy_tails.SIZES) * len(heavy_tails.BOUNDS) * 4
    assert rows["false"].max() <= heavy_tails.ALLOWED
    assert rows["false unchecked"].max() > 0.25


def test_a_null_log_has_its_fault(imported):
    study = imported("null_verdicts")
    logs = {kind: study.log_of(kind, np.random.default_rng(0)) for kind in study.KINDS}
    assert all(len(log) == study.ROWS for log in logs.values())
    assert logs["duplicated"].duplicated().sum() >= study.ROWS // 2
    assert (logs["leaked"]["copy"] == logs["leaked"]["reward"]).all()
    assert logs["same action"].groupby("visitor")["action"].nunique().max() == 1
    assert logs["jittered"].drop(columns="age").duplicated().sum() == study.ROWS * 4 // 5
    assert 20 < (logs["rare losses"]["reward"] < 0).sum() < 90
    assert study.verdict_of("leaked", 0) == "the log cannot say"


def test_no_kind_of_null_log_is_called_better_too_often(imported):
    """In docs/results/null_verdicts.csv: no share is significantly above 5 %, by a one-sided binomial test at 1 %."""
    rows = pd.read_csv(ROOT / "docs/results/null_verdicts.csv")
    assert set(rows["log"]) == set(imported("null_verdicts").KINDS)
    assert (rows["logs"] == 500).all()
    assert (rows["p_value"] > 0.01).all()
