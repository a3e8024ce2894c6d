"""The steps on one action of K: a chain with clicks and classifiers, recomputed here, and errors of its inputs."""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import AXES, SPLIT, algorithm, run_step
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

from drcrm import SoftmaxPolicy
from drcrm.certificates import policy_certificate
from drcrm.files import read_npz, write_npz
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.paper.array_files import read_cost_model, read_log, read_truth
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.selection.score_names import SCORES

K = 4
CLICKS = 0.7, 0.2
CLASSIFIERS = {"linear_none": ("linear", "none"), "trees_weighted": ("trees", "inverse_propensity")}
TILTED = {"estimate": "dr", "start": "model", "tilt": "auto"}
FITS = {
    "cips": algorithm("CIPS"),
    "kl_dro": algorithm("KLDRO", parameter="radius", grid=[0.01, 0.1]),
    "dr": algorithm("CIPS", options=TILTED),
    "map": algorithm("CIPS", options=TILTED | {"features": {"nystroem": 10}}),
    "safe": algorithm("CIPS", options=TILTED | {"safe": True, "context_effects": True}),
}
SELECTION = {"selection": ["dr_bound", "snips"], "absent_label_score": "logged"}
PARAMETERS = {**SELECTION, "test_shift": None, "click_rates": CLICKS, "replay_count": 4, **AXES}


def write_contexts(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, slopes = rng.normal(size=(n, 3)), np.array([[2.0, -1, 0, 0], [0, 2, -1, 0], [-1, 0, 2, 0]])
    write_npz(path, X=X, labels=(X @ slopes + rng.gumbel(size=(n, K))).argmax(axis=1), n_actions=np.array(K))


def evaluate_inputs(folder: Path, **changes) -> dict:
    inputs = {name: folder / f"{name}.npz" for name in ("test", "log", "logging", "skyline", "cost_model")}
    inputs |= {"fits": [folder / f"{name}.npz" for name in FITS]}
    return {**inputs, "classifiers": [folder / f"{name}.npz" for name in CLASSIFIERS], **changes}


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> Path:
    """All steps from split to evaluate, with clicks and a sharpness of 2 for π0; tests only read it."""
    folder = tmp_path_factory.mktemp("single")
    write_contexts(folder / "train.npz", 90, 0)
    write_contexts(folder / "test.npz", 50, 1)
    names = ("train", "test", "split", "logging", "skyline", "log", "cost_model")
    at = {name: folder / f"{name}.npz" for name in (*names, *FITS, *CLASSIFIERS)}
    contexts = {"train": at["train"], "split": at["split"]}
    learned = {"log": at["log"], "logging": at["logging"], "cost_model": at["cost_model"]}
    drawn = {**SPLIT, **AXES, "replay_count": 4, "click_rates": CLICKS}
    steps = [
        ("split", {"train": at["train"]}, {"split": at["split"]}, {**SPLIT, **AXES}),
        ("log_crf", contexts, {"policy": at["logging"]}, {"logging": "crf", "logging_c": 1, "logging_sharpness": 2}),
        ("skyline", contexts, {"policy": at["skyline"]}, {}),
        ("replay", {**contexts, "policy": at["logging"]}, {"log": at["log"]}, drawn),
        ("cost_model", {"log": at["log"]}, {"model": at["cost_model"]}, {}),
        *(("fit", learned, {"fits": at[name]}, entry) for name, entry in FITS.items()),
    ]
    for name, (classifier, weights) in CLASSIFIERS.items():
        entry = {**AXES, "classifier": classifier, "weights": weights}
        steps.append(("classify", {"log": at["log"], "test": at["test"]}, {"probabilities": at[name]}, entry))
    direct = {"log": at["log"], "logging": at["logging"], "test": at["test"]}
    entry = {**AXES, "classifier": "cost_trees", "weights": "none"}
    steps.append(("classify", direct, {"probabilities": folder / "direct.npz"}, entry))
    outputs = {name: folder / f"{name}.csv" for name in ("metrics", "grids")}
    for step in (*steps, ("evaluate", evaluate_inputs(folder), outputs, PARAMETERS)):
        assert run_step(*step) == 0, step
    return folder


@pytest.fixture(scope="module")
def rows(single) -> pd.DataFrame:
    return pd.read_csv(single / "metrics.csv").set_index(["algorithm", "selection"])


def errors(probability: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return expected and greedy error of the probabilities of actions."""
    return [1 - probability[np.arange(len(labels)), labels].mean(), (probability.argmax(axis=1) != labels).mean()]


LOSSES = ["expected_loss", "greedy_loss"]


def test_losses_are_error_rates(single, rows):
    X, truth = read_truth(single / "test.npz")
    fits = read_npz(single / "kl_dro.npz", ["coef", "chosen"])
    coefs = {name: read_npz(single / f"{name}.npz", ["coef"])["coef"] for name in ("logging", "skyline")}
    coefs["kl_dro"] = fits["coef"][fits["chosen"][list(SCORES).index("snips")]]
    for name, coef in coefs.items():
        expected = errors(softmax(X @ coef, axis=1), truth.labels)
        assert rows.loc[(name, "snips"), LOSSES].tolist() == pytest.approx(expected, rel=1e-9)


def test_certificates_are_error_rates_too(single, rows):
    """(cost + right)/(right − wrong) of the library's own certificate."""
    train, heldout = read_log(single / "log.npz")
    policy = SoftmaxPolicy(read_npz(single / "dr.npz", ["coef"])["coef"][0])
    logging_policy = SoftmaxPolicy(read_npz(single / "logging.npz", ["coef"])["coef"])
    model = restrict_to_support(read_cost_model(single / "cost_model.npz"), train, logging_policy, SUPPORT)
    expected = policy_certificate(policy, heldout, estimate="dr", cost_model=model, by="context", check_tails=False)
    row, (right, wrong) = rows.loc["dr", "snips"], CLICKS
    assert row["estimate"] == pytest.approx((expected.value + right) / (right - wrong))
    assert row["bound"] == pytest.approx((expected.bound + right) / (right - wrong))


def test_a_feature_map_is_fitted_to_the_training_contexts(single, rows):
    train, _ = read_log(single / "log.npz")
    features = FeatureMap(as_transformer({"nystroem": 10}), train.X)
    X, truth = read_truth(single / "test.npz")
    coef = read_npz(single / "map.npz", ["coef"])["coef"][0]
    assert coef.shape == (X.shape[1] + 10, K)
    expected = errors(SoftmaxPolicy(coef).marginals(features(X)), truth.labels)
    assert rows.loc[("map", "snips"), LOSSES].tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_are_fitted_to_the_weighted_rows(single, rows, name):
    classifier, weights = CLASSIFIERS[name]
    log, _ = read_log(single / "log.npz")
    weight = log.count * -log.cost  # c_max is 0
    if weights == "inverse_propensity":
        weight = log.count * np.minimum(-log.cost / log.propensity, 100)
    kept, (X, truth) = weight > 0, read_truth(single / "test.npz")
    seed = int(np.random.default_rng([zlib.crc32(b"toy/classify"), 0]).integers(2**31))
    trees = HistGradientBoostingClassifier(random_state=seed)
    model = LogisticRegression(max_iter=1000) if classifier == "linear" else trees
    model.fit(log.X[log.context[kept], :-1], log.Y[kept], sample_weight=weight[kept])
    probability = np.zeros((50, K))
    probability[:, model.classes_] = model.predict_proba(X[:, :-1])
    assert read_npz(single / f"{name}.npz", ["probability"])["probability"] == pytest.approx(probability, abs=1e-9)
    for selection in ("dr_bound", "snips"):
        row = rows.loc[name, selection]
        assert row[LOSSES].tolist() == pytest.approx(errors(probability, truth.labels), abs=1e-9)
        assert row[["hyperparameter", "score", "estimate", "bound", "iterations"]].isna().all()


def test_the_direct_method_takes_the_cheapest_supported_action(single):
    """Action a has the mean cost of trees fitted to its own rows, and costs 0 where π0 has less than 0.05/K."""
    log, _ = read_log(single / "log.npz")
    X, _ = read_truth(single / "test.npz")
    costs = np.full((len(X), K), log.count @ log.cost / log.count.sum())
    seed = int(np.random.default_rng([zlib.crc32(b"toy/classify"), 0]).integers(2**31))
    for action in np.unique(log.Y):
        rows = np.flatnonzero(action == log.Y)
        model = HistGradientBoostingRegressor(random_state=seed)
        model.fit(log.X[log.context[rows]], log.cost[rows], sample_weight=log.count[rows])
        costs[:, action] = np.clip(model.predict(X), log.cost.min(), log.cost.max())
    logging = softmax(X @ read_npz(single / "logging.npz", ["coef"])["coef"], axis=1)
    costs[logging < 0.05 / K] = log.cost.max()
    probability = read_npz(single / "direct.npz", ["probability"])["probability"]
    assert np.count_nonzero(probability) == len(X)
    np.testing.assert_array_equal(probability.argmax(axis=1), costs.argmin(axis=1))
