"""The steps on one action of K: a chain with clicks, its numbers computed again here, and what wrong input gets."""

from __future__ import annotations

import csv
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, CostModel, SoftmaxPolicy
from drcrm.__main__ import main
from drcrm.certificates import policy_certificate
from drcrm.cost_models.support import SUPPORT, SupportedModel
from drcrm.errors import InputError
from drcrm.experiments.classifiers import classified, rewarded_weights
from drcrm.experiments.datasets.array_files import read_log
from drcrm.experiments.datasets.truths import read_truth
from drcrm.files import read_csv, read_npz, write_npz
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.selection.grid_search import STEPS
from drcrm.selection.score_names import SCORES

K = 4
AXES = "--dataset", "toy", "--seed", 0
CLICKS = 0.7, 0.2
SHARES = "--logging-fraction", 0.2, "--heldout-fraction", 0.25
PEERS = {f"{c}_{w}": (c, w) for c in ("linear", "trees") for w in ("none", "inverse_propensity")}
TILTED = {"estimate": "dr", "start": "model", "tilt": "auto"}
FITS = {
    "cips": ["--estimator", "CIPS"],
    "kl_dro": ["--estimator", "KLDRO", "--parameter", "radius", "--grid", 0.01, 0.1],
    "dr": ["--estimator", "CIPS", "--options", json.dumps(TILTED)],
    "map": ["--estimator", "CIPS", "--options", json.dumps(TILTED | {"features": {"nystroem": 10}})],
    "safe": ["--estimator", "CIPS", "--options", json.dumps(TILTED | {"safe": True, "context_effects": True})],
}


def run(*arguments: object) -> int:
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def write_contexts(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, slopes = rng.normal(size=(n, 3)), np.array([[2.0, -1, 0, 0], [0, 2, -1, 0], [-1, 0, 2, 0]])
    write_npz(path, X=X, labels=(X @ slopes + rng.gumbel(size=(n, K))).argmax(axis=1), n_actions=np.array(K))


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """All steps from split to evaluate, with clicks and a π0 sharpened by 2; tests read it and never write to it."""
    at = tmp_path_factory.mktemp("single")
    write_contexts(at / "train.npz", 90, 0)
    write_contexts(at / "test.npz", 50, 1)
    files = {name: at / f"{name}.npz" for name in ("split", "logging", "skyline", "log", "cost_model", *FITS, *PEERS)}
    contexts = "--train", at / "train.npz", "--split", files["split"]
    clicks = "--click-rates", *CLICKS
    drawn = "--split-unit", "row", *SHARES[2:], "--replay-count", 4, *clicks
    log, policy = ("--log", files["log"]), ("--logging", files["logging"])
    test = "--test", at / "test.npz"
    steps = [
        ("split", "--train", at / "train.npz", "--split-unit", "row", *SHARES, *AXES, "--output", files["split"]),
        ("log_crf", *contexts, "--logging-c", 1, "--logging-sharpness", 2, "--output", files["logging"]),
        ("skyline", *contexts, "--output", files["skyline"]),
        ("replay", *contexts, "--policy", files["logging"], *drawn, *AXES, "--output", files["log"]),
        ("cost_model", *log, "--output", files["cost_model"]),
        *(
            ("fit", *log, *policy, "--cost-model", files["cost_model"], *told, "--output", files[name])
            for name, told in FITS.items()
        ),
        *(
            ("classify", *log, *test, "--classifier", c, "--weights", w, *AXES, "--output", files[name])
            for name, (c, w) in PEERS.items()
        ),
        (*evaluate(at), "--output", at / "metrics.csv", "--output-grids", at / "grids.csv"),
    ]
    for step in steps:
        assert run(*step) == 0, step
    return at


def evaluate(at: Path, **changed: object) -> list[object]:
    """The evaluate of the chain, less its outputs."""
    named = {"fit": [f"{name}={at / name}.npz" for name in FITS]}
    named |= {"classifier": [f"{name}={at / name}.npz" for name in PEERS], "selection": ["dr_bound", "snips"]}
    named |= {name: [at / f"{name}.npz"] for name in ("test", "log", "logging", "skyline", "cost_model")}
    named |= {"absent_label_score": ["logged"], "click_rates": CLICKS, "replay_count": [4], **changed}
    flags = [word for name, values in named.items() for word in (f"--{name.replace('_', '-')}", *values)]
    return ["evaluate", *flags, *AXES]


@pytest.fixture(scope="module")
def rows(toy) -> dict[tuple[str, str], dict[str, str]]:
    with open(toy / "metrics.csv", newline="") as stream:
        return {(row["algorithm"], row["selection"]): row for row in csv.DictReader(stream)}


def contexts_of(toy) -> tuple[np.ndarray, np.ndarray]:
    held = read_npz(toy / "test.npz", ["X", "labels"])
    return np.column_stack([held["X"], np.ones(50)]), held["labels"]


def errors(probability: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Expected and greedy error of the probabilities of actions."""
    right = probability[np.arange(len(labels)), labels]
    return 1 - right.mean(), (probability.argmax(axis=1) != labels).mean()


class TestChain:
    def test_the_logging_policy_is_the_sharpened_regression(self, toy):
        train, split = read_npz(toy / "train.npz", ["X", "labels"]), read_npz(toy / "split.npz", ["logging"])
        rows = split["logging"]
        fitted = LogisticRegression(C=1, tol=1e-9, max_iter=10000).fit(train["X"][rows], train["labels"][rows])
        coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
        assert set(fitted.classes_) == set(range(K))
        assert coef == pytest.approx(2 * np.vstack([fitted.coef_.T, fitted.intercept_]), abs=1e-3)

    def test_the_log_has_one_action_a_row(self, toy):
        log = read_npz(toy / "log.npz", ["Y", "cost", "propensity", "context", "n_actions", "X", "train", "heldout"])
        policy = SoftmaxPolicy(read_npz(toy / "logging.npz", ["coef"])["coef"])
        assert log["Y"].ndim == 1
        assert int(log["n_actions"]) == K
        probability = policy.marginals(log["X"])[log["context"], log["Y"]]
        assert log["propensity"] == pytest.approx(probability, rel=1e-12)
        assert set(log["cost"]) == {-1.0, 0.0}
        assert (log["train"].sum(), log["heldout"].sum()) == (270, 90)

    def test_losses_are_error_rates(self, toy, rows):
        X, labels = contexts_of(toy)
        for name in ("logging", "skyline"):
            coef = read_npz(toy / f"{name}.npz", ["coef"])["coef"]
            expected = errors(softmax(X @ coef, axis=1), labels)
            found = [float(rows[name, "snips"][key]) for key in ("expected_loss", "greedy_loss")]
            assert found == pytest.approx(expected, rel=1e-9)
        fits = read_npz(toy / "kl_dro.npz", ["coef", "chosen"])
        coef = fits["coef"][fits["chosen"][list(SCORES).index("snips")]]
        found = float(rows["kl_dro", "snips"]["expected_loss"])
        assert found == pytest.approx(errors(softmax(X @ coef, axis=1), labels)[0], rel=1e-9)

    def test_certificates_are_error_rates_too(self, toy, rows):
        """(cost + right)/(right − wrong) of the library's own certificate."""
        train, heldout = read_log(toy / "log.npz")
        arrays = read_npz(toy / "cost_model.npz", ["coef", "intercept"])
        model = CostModel()
        model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
        policy = SoftmaxPolicy(read_npz(toy / "dr.npz", ["coef"])["coef"][0])
        known = SoftmaxPolicy(read_npz(toy / "logging.npz", ["coef"])["coef"])
        model = SupportedModel.of(model, train, known, SUPPORT)
        said = policy_certificate(policy, heldout, estimate="dr", cost_model=model, by="context", check_tails=False)
        row, (right, wrong) = rows["dr", "snips"], CLICKS
        assert float(row["estimate"]) == pytest.approx((said.value + right) / (right - wrong))
        assert float(row["bound"]) == pytest.approx((said.bound + right) / (right - wrong))

    def test_a_map_is_fitted_to_the_training_contexts_wherever_its_policies_are_used(self, toy, rows):
        train, _ = read_log(toy / "log.npz")
        features = FeatureMap(as_transformer({"nystroem": 10}), train.X)
        X, truth = read_truth(toy / "test.npz")
        coef = read_npz(toy / "map.npz", ["coef"])["coef"][0]
        assert coef.shape == (X.shape[1] + 10, K)
        expected = errors(SoftmaxPolicy(coef).marginals(features(X)), truth.labels)[0]
        assert float(rows["map", "snips"]["expected_loss"]) == pytest.approx(expected, rel=1e-9)

    def test_safe_candidates_end_with_the_logging_policy(self, toy, rows):
        fits = read_npz(toy / "safe.npz", ["coef", "step", "ridge", "grid"])
        assert fits["step"].tolist() == [1, 1, 1, 1, *STEPS, 0]
        assert np.array_equal(fits["coef"][-1], read_npz(toy / "logging.npz", ["coef"])["coef"])
        grid = [row for row in read_csv(toy / "grids.csv", []).to_dict("records") if row["algorithm"] == "safe"]
        assert grid[-1]["improvement_bound"] == 0
        assert grid[-1]["expected_loss"] == pytest.approx(float(rows["logging", "snips"]["expected_loss"]))

    @pytest.mark.parametrize("name", PEERS)
    def test_peers_are_fitted_to_the_rewarded_rows(self, toy, rows, name):
        classifier, weights = PEERS[name]
        log, _ = read_log(toy / "log.npz")
        weight = log.count * -log.cost  # c_max is 0
        if weights == "inverse_propensity":
            weight = log.count * np.minimum(-log.cost / log.propensity, 100)
        kept, (X, labels) = weight > 0, contexts_of(toy)
        seed = int(np.random.default_rng([zlib.crc32(b"toy/classify"), 0]).integers(2**31))
        trees = HistGradientBoostingClassifier(random_state=seed)
        model = LogisticRegression(max_iter=1000) if classifier == "linear" else trees
        model.fit(log.X[log.context[kept], :-1], log.Y[kept], sample_weight=weight[kept])
        probability = np.zeros((50, K))
        probability[:, model.classes_] = model.predict_proba(X[:, :-1])
        assert read_npz(toy / f"{name}.npz", ["probability"])["probability"] == pytest.approx(probability, abs=1e-9)
        for selection in ("dr_bound", "snips"):
            row = rows[name, selection]
            found = [float(row[key]) for key in ("expected_loss", "greedy_loss")]
            assert found == pytest.approx(errors(probability, labels), abs=1e-9)
            assert {row[key] for key in ("hyperparameter", "score", "estimate", "bound", "iterations")} == {""}

    def test_peers_have_no_row_among_the_grids(self, toy):
        with open(toy / "grids.csv", newline="") as stream:
            assert {row["algorithm"] for row in csv.DictReader(stream)} == set(FITS)


class TestClassifiers:
    LOG = BanditLog(np.eye(3), [0, 2, 2], [0.5, 0.001, 0.25], [-1.0, -0.5, 0.5], count=[1, 2, 3], n_actions=4)

    def test_weights(self):
        """By the costs' distance from the largest, for each propensity, up to 100 for each occurrence."""
        assert rewarded_weights(self.LOG, "none").tolist() == [1.5, 2, 0]
        assert rewarded_weights(self.LOG, "inverse_propensity").tolist() == [3, 200, 0]

    @pytest.mark.parametrize("classifier", ["linear", "trees"])
    def test_an_action_without_a_rewarded_row_has_no_probability(self, classifier):
        probability = classified(self.LOG, np.eye(3), classifier, "none", 0)
        assert (probability[:, [1, 3]] == 0).all()
        assert probability.sum(axis=1) == pytest.approx(np.ones(3))

    def test_a_single_action_is_certain(self):
        log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, 0.0], n_actions=3)
        assert classified(log, np.ones((2, 2)), "linear", "none", 0).tolist() == [[0, 1, 0]] * 2

    def test_costs_that_are_all_the_same(self):
        log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, -1.0], n_actions=3)
        with pytest.raises(InputError, match="every logged cost is -1: no row is better than another"):
            classified(log, np.ones((2, 2)), "linear", "none", 0)


def said(capsys, *arguments: object) -> str:
    """What a step that fails says, in one line."""
    assert run(*arguments) != 0
    [line] = capsys.readouterr().err.splitlines()
    return line


class TestBadInput:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"absent_label_score": ["half"]}, "an absent label counts ½ under label vectors alone"),
            ({"click_rates": (0.2, 0.7)}, "click rates are 0.2 and 0.7, expected 1 ≥ right > wrong ≥ 0"),
            ({"classifier": ["peer=FOLDER/log.npz"]}, "no array 'probability'"),
            ({"fit": [], "classifier": []}, "expected at least one argument"),
        ],
    )
    def test_of_evaluate(self, toy, tmp_path, capsys, changed, message):
        changed = {key: [str(each).replace("FOLDER", str(toy)) for each in of] for key, of in changed.items()}
        assert message in said(capsys, *evaluate(toy, **changed), "--output", tmp_path / "out.csv")
        assert not list(tmp_path.iterdir())

    def test_probabilities_of_other_actions(self, toy, tmp_path, capsys):
        write_npz(tmp_path / "p.npz", probability=np.ones((50, K + 1)))
        words = evaluate(toy, classifier=[f"peer={tmp_path / 'p.npz'}"])
        line = said(capsys, *words, "--output", tmp_path / "out.csv")
        assert f"{tmp_path / 'p.npz'}: probability has shape (50, 5), expected (50, 4)" in line

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"labels": np.array([0, 4])}, "labels is 4 in row 1, expected 0 to 3"),
            ({"labels": np.array([0, -1])}, "labels is -1 in row 1, expected 0 to 3"),
            ({"labels": np.array([0.5, 1])}, "labels"),
            ({"labels": np.array([0, 1, 1])}, "labels has"),
            ({"n_actions": np.array(0)}, "labels is 0 in row 0, expected 0 to -1"),
        ],
    )
    def test_of_contexts(self, tmp_path, capsys, arrays, message):
        given = {"X": np.ones((2, 3)), "labels": np.array([0, 1]), "n_actions": np.array(K)} | arrays
        write_npz(tmp_path / "train.npz", **given)
        words = "split", "--train", tmp_path / "train.npz", "--split-unit", "row", *SHARES, *AXES
        line = said(capsys, *words, "--output", tmp_path / "out.npz")
        assert f"{tmp_path / 'train.npz'}: {message}" in line

    def test_the_theory_is_of_label_vectors(self, toy, tmp_path, capsys):
        words = "theory", "lemma1", "--train", toy / "train.npz", "--repetitions", 2, *AXES
        line = said(capsys, *words, "--output", tmp_path / "out.csv")
        assert f"{toy / 'train.npz'}: one action of K, expected label vectors" in line

    def test_a_classifier_of_label_vectors(self, toy, tmp_path, capsys):
        rows = {"Y": np.eye(3, dtype=np.uint8), "propensity": np.ones(3), "cost": np.zeros(3), "context": np.arange(3)}
        write_npz(tmp_path / "log.npz", X=np.eye(3), **rows, train=np.ones(3, int), heldout=np.ones(3, int))
        words = "classify", "--log", tmp_path / "log.npz", "--test", toy / "test.npz", "--classifier", "linear"
        line = said(capsys, *words, *AXES, "--output", tmp_path / "out.npz")
        assert f"{tmp_path / 'log.npz'}: it has 3 labels, expected one action of K a row" in line
