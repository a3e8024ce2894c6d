"""The steps cost_model and fit, recomputed here, and the errors of their inputs."""

import numpy as np
import pytest
from fixtures.pipeline import AXES, FIT, LOG, SPLIT, algorithm, error_of, evaluate_inputs, run_step

from drcrm import BanditLog, CostModel
from drcrm.cost_models.context_effects import context_effects
from drcrm.files import read_npz, write_npz
from drcrm.paper.array_files import read_cost_model, read_log
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog

KL_BALL = algorithm("KLDRO", parameter="radius", grid=[0.1])


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


def test_the_cost_model_of_a_large_log_estimates_variances_on_a_sample(toy, tmp_path, monkeypatch):
    path = toy / "replay4/log.npz"
    train, _ = read_log(path)
    monkeypatch.setattr(prepared_log, "SAMPLE", train.n_contexts // 4)
    assert run_step("cost_model", {"log": path}, {"model": tmp_path / "model.npz"}) == 0
    model, sample = read_cost_model(tmp_path / "model.npz"), PreparedLog(train).sample.log
    assert sample.n_contexts == train.n_contexts // 4
    estimated = context_effects(sample, model.effects(sample.X, sample.actions))
    np.testing.assert_allclose(model.variances_[0], estimated.covariance, rtol=1e-12)


def test_the_cost_model_of_a_log_without_a_constant_has_an_intercept(log, tmp_path):
    write_npz(tmp_path / "log.npz", **log | {"X": log["X"][:, :-1]})
    assert run_step("cost_model", {"log": tmp_path / "log.npz"}, {"model": tmp_path / "model.npz"}) == 0
    rows = (log[name] for name in ("cost", "context", "train"))
    train = BanditLog(log["X"][:, :-1], log["Y"], np.ones(len(log["Y"])), *rows).with_groups(log["context"])
    stored, expected = read_cost_model(tmp_path / "model.npz"), CostModel().fit(train)
    assert stored.intercept_ == pytest.approx(expected.intercept_, rel=1e-12)
    assert stored.intercept_[-1] != 0
    np.testing.assert_allclose(stored.coef_, expected.coef_, rtol=1e-9)


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


@pytest.mark.parametrize("step", ["split", "log_crf", "replay", "cost_model", "fit", "evaluate"])
def test_a_file_that_is_no_npz_is_an_error(toy, tmp_path, capsys, step):
    """``read_npz`` has its own tests; here each step names the file, which is a truncated one."""
    broken = tmp_path / "broken.npz"
    contexts = {"train": toy / "train.npz", "split": toy / "split.npz"}
    sound, output, inputs, parameters = {
        "split": ("train.npz", "split", {"train": broken}, {**SPLIT, **AXES}),
        "log_crf": (
            "split.npz",
            "policy",
            {**contexts, "split": broken},
            {"logging": "crf", "logging_c": 1, "logging_sharpness": 1},
        ),
        "replay": ("logging.npz", "log", {**contexts, "policy": broken}, {**SPLIT, **AXES, "replay_count": 2}),
        "cost_model": ("replay4/log.npz", "model", {"log": broken}, {}),
        "fit": ("replay4/log.npz", "fits", {"log": broken}, KL_BALL),
        "evaluate": (
            "replay4/cips.npz",
            "metrics",
            evaluate_inputs(toy, fits=[broken]),
            {
                "selection": ["ips"],
                "absent_label_score": "half",
                "click_rates": [1, 0],
                "test_shift": None,
                "replay_count": 4,
                **AXES,
            },
        ),
    }[step]
    content = (toy / sound).read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    (tmp_path / "out").mkdir()
    outputs = {output: tmp_path / "out/out.npz", "grids": tmp_path / "out/grids.csv"}
    error = error_of(capsys, step, inputs, outputs, parameters)
    assert error.startswith(f"{broken}: not a readable npz file: ")
