"""Steps that learn from a log and measure losses."""

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    EVALUATE,
    FIT,
    GRID,
    LEARNED,
    LOG,
    SCORES,
    algorithm,
    error_of,
    evaluate_inputs,
    run_step,
)
from scipy.special import expit

from drcrm import ExponentialPolicy
from drcrm.certificates import policy_certificate
from drcrm.cost_models.context_effects import context_effects
from drcrm.files import read_npz, write_npz
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.paper.array_files import read_cost_model, read_log, read_policy, read_truth

KL_BALL = algorithm("KLDRO", parameter="radius", grid=[0.1])
CERTIFICATE = ["estimate", "bound", "effective_size"]


@pytest.fixture(scope="module")
def log(toy) -> dict[str, np.ndarray]:
    return read_npz(toy / "replay4/log.npz", LOG)


def test_the_cost_model_stores_the_variances_of_context_effects(toy, tmp_path):
    """A fit with the stored variances equals one that estimates them."""
    path, log = toy / "replay4/cost_model.npz", toy / "replay4/log.npz"
    arrays, (train, _) = read_npz(path, ["coef", "intercept", "covariance", "noise"]), read_log(log)
    model = read_cost_model(path)
    estimated = context_effects(train, model.effects(train.X, train.actions))
    np.testing.assert_allclose(model.variances_[0], estimated.covariance, rtol=1e-12)
    assert model.variances_[1] == pytest.approx(estimated.noise, rel=1e-12)
    write_npz(tmp_path / "plain.npz", coef=arrays["coef"], intercept=arrays["intercept"])
    coefs = []
    for file in (path, tmp_path / "plain.npz"):
        parameters = algorithm("CIPS", options={"estimate": "dr"})
        assert run_step("fit", {"log": log, "cost_model": file}, {"fits": tmp_path / "fit.npz"}, parameters) == 0
        coefs.append(read_npz(tmp_path / "fit.npz", FIT)["coef"])
    np.testing.assert_allclose(*coefs, rtol=1e-6, atol=1e-6)


def test_candidates_of_a_calibrated_safe_fit_have_the_configured_grid_values(toy, tmp_path):
    inputs = {
        "log": toy / "replay4/log.npz",
        "cost_model": toy / "replay4/cost_model.npz",
        "logging": toy / "logging.npz",
    }
    options = {"safe": True, "estimate": "dr", "start": "logging"}
    scaled = {"parameter": "variance_penalty", "grid": [0.1, 1], "variance_penalty_scale": "calibrated"}
    parameters = algorithm("POEM", options=options, **scaled)
    assert run_step("fit", inputs, {"fits": tmp_path / "fit.npz"}, parameters) == 0
    fit = read_npz(tmp_path / "fit.npz", FIT)
    assert len(fit["grid"]) == len(fit["coef"]) > 2
    assert fit["grid"][:2].tolist() == [0.1, 1]
    assert set(fit["grid"][:-1]) == {0.1, 1}
    assert np.isnan(fit["grid"][-1])  # π0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (algorithm("KLDR"), "unknown estimator 'KLDR'; did you mean 'KLDRO'?"),
        (algorithm("nowhere:Risk"), "estimator nowhere:Risk: No module named 'nowhere'"),
        (algorithm("KLDRO", parameter="gamma", grid=[1]), "the hyper-parameter of KLDRO is gamma and 1 values"),
        (algorithm("CIPS", options={"start": "logging"}), "start 'logging' needs the logging policy's coefficients"),
    ],
)
def test_a_wrong_algorithm_is_an_error(toy, tmp_path, capsys, parameters, message):
    """``Algorithm`` has the other checks."""
    inputs = {"log": toy / "replay4/log.npz"}
    assert error_of(capsys, "fit", inputs, {"fits": tmp_path / "fit.npz"}, parameters).startswith(message)


def evaluated(folder, inputs: dict, selection=("dr_bound",), **changes) -> pd.DataFrame:
    """Run evaluate and return its metrics by algorithm."""
    outputs = {name: folder / f"{name}.csv" for name in ("metrics", "grids")}
    assert run_step("evaluate", inputs, outputs, {**EVALUATE, "selection": selection, **changes}) == 0
    return pd.read_csv(outputs["metrics"]).set_index("algorithm")


def without(inputs: dict, *names: str) -> dict:
    return {name: path for name, path in inputs.items() if name not in names}


def test_losses_are_those_of_the_chosen_fits(toy, metrics):
    X, truth = read_truth(toy / "test.npz")
    labels = truth.labels
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
    for name, choices in (("kl_dro", len(GRID)), ("cips", 1)):
        row, fits = table.loc[name], read_npz(toy / f"replay4/{name}.npz", FIT)
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
    X, truth = read_truth(toy / "test.npz")
    labels = truth.labels
    marginals = expit(X @ coef[:, [0, 2]])
    present = np.where(labels[:, [0, 2]] == 1, 1 - marginals, marginals).sum(axis=1).mean()
    for score, expected in {"logged": labels[:, 1].mean(), "half": 0.5}.items():
        inputs = without(evaluate_inputs(toy, names=["cips"], logging=tmp_path / "logging.npz"), "cost_model")
        table = evaluated(tmp_path, inputs, ["ips"], absent_label_score=score)
        assert table.loc["logging", "expected_loss"] == pytest.approx(present + expected)
