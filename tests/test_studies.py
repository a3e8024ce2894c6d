"""The measurements beside the experiments: what their own helpers compute."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drcrm.core.objective import Objective
from drcrm.core.risks import KLBall


@pytest.fixture(scope="module")
def imported():
    """A module of studies/ by its name."""
    folder = str(Path(__file__).parents[1] / "studies")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


def test_crossed_effects_of_a_context_do_not_depend_on_its_own_costs(imported, logged):
    crossed_effects = imported("choices").crossed_effects
    log = logged(n=20)
    before = crossed_effects(log, 1e-2)
    after = crossed_effects(log.with_cost(log.cost + (log.context == 0)), 1e-2)
    assert before.shape == (20, 3)
    same = np.all(before == after, axis=1)
    assert same[0]
    assert same.sum() == 5


def test_a_vote_is_the_majority_and_a_tie_half_a_loss(imported):
    actions = [np.array([[1, 0, 1]])] * 2 + [np.array([[1, 1, 1]])] + [np.array([[1, 1, 0]])]
    vote_hamming = imported("choices").vote_hamming
    assert vote_hamming(actions, np.array([[1, 0, 1]])) == 0.5
    assert vote_hamming(actions, np.array([[0, 1, 0]])) == 2.5


def test_differences_are_paired_over_seeds(imported):
    losses = {("radius", "0.01"): [1.0, 2.0], ("clip", "none"): [1.5, 2.7]}
    rows = [
        {"dataset": "a", "seed": seed, "algorithm": "x", "choice": choice, "variant": variant, "expected_loss": loss}
        for (choice, variant), by_seed in losses.items()
        for seed, loss in enumerate(by_seed)
    ]
    table = imported("choices").differences(pd.DataFrame(rows))
    assert table.loc[("x", "clip", "none"), "a"] == "0.6000 ± 0.1000"


def test_noise_is_the_last_bit_of_half_of_the_gradient(imported, logged):
    shaken = imported("rounding").Shaken(Objective(logged(), KLBall(0.1)), np.random.default_rng(0))
    coef, moved = np.full(8, 0.1), []
    value, gradient, _ = shaken.objective.evaluate(coef)
    for _ in range(100):
        found, noisy, _ = shaken.evaluate(coef)
        assert found == value
        assert np.abs(noisy.view(np.int64) - gradient.view(np.int64)).max() <= 1
        moved.append(noisy != gradient)
    assert np.mean(moved) == pytest.approx(0.5, abs=0.1)


def test_spreads_are_pooled_over_seeds(imported):
    columns = ("fixed_loss", "chosen_loss", "farthest")
    losses = {0: [5.0, 1.0, 3.0], 1: [7.0, 2.0, 2.0]}
    rows = [
        {"dataset": "a", "algorithm": "x", "seed": seed, "noise": noise, **dict.fromkeys(columns, loss)}
        for seed, by_noise in losses.items()
        for noise, loss in enumerate(by_noise)
    ]
    [row] = imported("rounding").spreads(pd.DataFrame(rows)).to_dict("records")
    assert row["fixed: sd"] == pytest.approx(1.0)
    assert row["chosen: range"] == 2.0
    assert row["over seeds: sd"] == pytest.approx(np.sqrt(2))


def test_rows_of_other_sets_stay(imported, tmp_path):
    replace_rows = imported("finished").replace_rows
    old = pd.DataFrame({"dataset": ["a", "b"], "loss": [1.0, 2.0]})
    replace_rows(tmp_path / "rows.csv", old)
    rows = replace_rows(tmp_path / "rows.csv", old[:1].assign(loss=3.0))
    assert rows.to_dict("list") == {"dataset": ["b", "a"], "loss": [2.0, 3.0]}
    assert pd.read_csv(tmp_path / "rows.csv").equals(rows)


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
    rows = pd.read_csv(Path(__file__).parents[1] / coverage.OUTPUT)
    assert set(rows["setting"]) == set(coverage.settings())
    assert len(rows) == len(coverage.settings()) * len(coverage.SIZES) * len(coverage.METHODS)
    assert (rows["repetitions"] == 2000).all()
    finite = rows["method"].isin(coverage.FINITE_SAMPLE)
    assert (rows["coverage"] >= rows["confidence"])[finite].all()
    light = rows[~finite & (rows["tails"] == "light") & (rows["n"] == 4000)]
    assert (abs(light["coverage"] - light["confidence"]) < 4 * light["standard_error"]).all()


def test_choices_are_compared_by_run_and_counted_where_worse_than_the_logging_policy(imported):
    losses = {"ls_bound": [2.0, 3.5], "clipped_snips": [1.5, 3.0]}
    rows = [
        {"dataset": "a", "seed": seed, "algorithm": "poem", "selection": by, "expected_loss": loss, "logging": 3.2}
        for by, both in losses.items()
        for seed, loss in enumerate(both)
    ]
    found = imported("pessimism").table(pd.DataFrame(rows)).loc[("a", "ls_bound")]
    assert found["difference"] == 0.5
    assert (found["loss"], found["worse than π0"], found["choices"]) == (2.75, 1, 2)
