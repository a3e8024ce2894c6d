"""The step evaluate: losses, certificates and what does not fit together, recomputed here."""

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import EVALUATE, FIT, GRID, LEARNED, LOG, SCORES, evaluate_inputs, run_step
from scipy.special import expit

from drcrm import ExponentialPolicy
from drcrm.certificates import policy_certificate
from drcrm.files import read_npz, write_npz
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.paper.array_files import read_contexts, read_cost_model, read_log, read_policy

CERTIFICATE = ["estimate", "bound", "effective_size"]


def evaluated(folder, inputs: dict, selection=("dr_bound",), **changes) -> pd.DataFrame:
    """Run evaluate and return its metrics by algorithm."""
    outputs = {name: folder / f"{name}.csv" for name in ("metrics", "grids")}
    assert run_step("evaluate", inputs, outputs, {**EVALUATE, "selection": selection, **changes}) == 0
    return pd.read_csv(outputs["metrics"]).set_index("algorithm")


def without(inputs: dict, *names: str) -> dict:
    return {name: path for name, path in inputs.items() if name not in names}


def test_losses_are_those_of_the_chosen_fits(toy, metrics):
    X, labels = read_contexts(toy / "test.npz")
    rows_seen = set()
    for row in metrics.itertuples():
        if row.algorithm in ("logging", "skyline"):
            coef = read_npz(toy / f"{row.algorithm}.npz", ["coef"])["coef"]
            assert math.isnan(row.score)
        else:
            fits = read_npz(toy / f"replay{row.replay_count}/{row.algorithm}.npz", FIT)
            column = SCORES.index(row.selection)
            best = fits["scores"][:, column].argmin()
            coef = fits["coef"][best]
            assert row.score == fits["scores"][best, column]
            assert (row.iterations, row.converged) == (fits["iterations"][best], fits["converged"][best])
            np.testing.assert_equal(row.hyperparameter, fits["grid"][best])
            tilt = fits["tilt"][0] if row.algorithm == "dr" else math.nan
            np.testing.assert_equal(row.tilt, tilt)
        marginals = expit(X @ coef)
        expected = np.where(labels == 1, 1 - marginals, marginals).sum(axis=1).mean()
        greedy = ((marginals >= 0.5) != labels).sum(axis=1).mean()
        assert (row.expected_loss, row.greedy_loss) == pytest.approx((expected, greedy))
        rows_seen.add((row.replay_count, row.algorithm, row.selection))
    algorithms = "logging", *LEARNED, "skyline"
    assert rows_seen == {(count, a, s) for count in (1, 4) for a in algorithms for s in SCORES}
    assert len(metrics) == len(rows_seen)


def test_a_shifted_test_set_is_worse_for_the_logging_policy_and_certificates_stay(toy, tmp_path):
    today, shifted = (evaluated(tmp_path, evaluate_inputs(toy), test_shift=radius) for radius in (None, 0.2))
    assert shifted.loc["logging", "expected_loss"] > today.loc["logging", "expected_loss"]
    assert shifted["bound"].equals(today["bound"])


@pytest.mark.filterwarnings("ignore:the effective sample size is", "ignore:the mean weight is")
@pytest.mark.parametrize("estimate", ["dr", "snips"])
def test_certificates_are_those_of_the_library(toy, metrics, estimate, tmp_path):
    """They are by context, adjusted for the values of the grid, and in units of the Hamming loss."""
    if estimate == "snips":
        table = evaluated(tmp_path, without(evaluate_inputs(toy), "cost_model"))
    else:
        table = metrics[(metrics["replay_count"] == 4) & (metrics["selection"] == "dr_bound")].set_index("algorithm")
    assert table.loc[["logging", "skyline"], CERTIFICATE].isna().all(axis=None)
    train, heldout = read_log(toy / "replay4/log.npz")
    logging = read_policy(toy / "logging.npz", train.actions)
    model = restrict_to_support(read_cost_model(toy / "replay4/cost_model.npz"), train, logging, SUPPORT)
    options = {"cost_model": model} if estimate == "dr" else {"logging_policy": logging}
    for algorithm, choices in (("kl_dro", len(GRID)), ("cips", 1)):
        row, fits = table.loc[algorithm], read_npz(toy / f"replay4/{algorithm}.npz", FIT)
        policy = ExponentialPolicy(fits["coef"][fits["scores"][:, SCORES.index("dr_bound")].argmin()])
        options |= {"choices": choices, "by": "context", "check_tails": False}
        expected = policy_certificate(policy, heldout, estimate, **options)
        values = 3 + expected.value, 3 + expected.bound, expected.effective_size
        assert row[CERTIFICATE].tolist() == pytest.approx(values, rel=1e-9)


@pytest.mark.parametrize("fault", ["one context", "no weight"])
def test_no_certificate_is_an_empty_cell(toy, tmp_path, fault):
    log, fits = read_npz(toy / "replay4/log.npz", LOG), read_npz(toy / "replay4/cips.npz", FIT)
    if fault == "one context":
        [context] = log["context"][log["heldout"] > 0][:1]
        log["heldout"] = log["heldout"] * (log["context"] == context)
    else:
        log["X"], log["Y"] = np.ones_like(log["X"]), np.ones_like(log["Y"])
        fits["coef"] = np.full_like(fits["coef"], -500)
    write_npz(tmp_path / "log.npz", **log)
    write_npz(tmp_path / "cips.npz", **fits)
    inputs = evaluate_inputs(toy, log=tmp_path / "log.npz", fits=[tmp_path / "cips.npz"])
    table = evaluated(tmp_path, without(inputs, "cost_model"), ["ips"])
    assert table.loc["cips", CERTIFICATE].isna().all()
    assert table["expected_loss"].notna().all()


def test_an_absent_label_counts_as_logged_or_half(toy, tmp_path):
    """π0 logs such a label as 0: its loss is how often it is 1, or one half."""
    coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
    coef[:, 1] = [*np.zeros(len(coef) - 1), -1000]
    write_npz(tmp_path / "logging.npz", coef=coef, absent=np.array([False, True, False]))
    X, labels = read_contexts(toy / "test.npz")
    marginals = expit(X @ coef[:, [0, 2]])
    present = np.where(labels[:, [0, 2]] == 1, 1 - marginals, marginals).sum(axis=1).mean()
    for score, expected in {"logged": labels[:, 1].mean(), "half": 0.5}.items():
        inputs = without(evaluate_inputs(toy, names=["cips"], logging=tmp_path / "logging.npz"), "cost_model")
        table = evaluated(tmp_path, inputs, ["ips"], absent_label_score=score)
        assert table.loc["logging", "expected_loss"] == pytest.approx(present + expected)
