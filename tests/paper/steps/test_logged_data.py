"""The steps from labelled contexts to a log: split, logging policy and replay, recomputed here."""

import math

import numpy as np
import pytest
from fixtures.pipeline import AXES, LOG, SPLIT, error_of, run_chain
from scipy.special import expit

from drcrm.files import read_npz
from drcrm.paper.array_files import read_contexts


def test_logging_policy_is_regularised_logistic_regression(toy):
    """Its gradient at the optimum, Xᵀ(σ(Xθ) − y) + θ/C, is 0 up to the 6 decimals of CRFsuite's weights."""
    X, labels = read_contexts(toy / "train.npz")
    rows = read_npz(toy / "split.npz", ["logging"])["logging"]
    logging = read_npz(toy / "logging.npz", ["coef", "absent"])
    assert not logging["absent"].any()
    X, labels, coef = X[rows], labels[rows], logging["coef"]
    np.testing.assert_allclose(X.T @ (expit(X @ coef) - labels) + coef / 0.5, 0, atol=2e-4)


def test_log_has_propensities_costs_and_counts_of_distinct_rows(toy):
    X, labels = read_contexts(toy / "train.npz")
    coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
    log = read_npz(toy / "replay4/log.npz", LOG)
    np.testing.assert_array_equal(log["X"], X)
    marginals, Y = expit(X @ coef)[log["context"]], log["Y"]
    np.testing.assert_allclose(log["propensity"], np.where(Y == 1, marginals, 1 - marginals).prod(axis=1))
    np.testing.assert_array_equal(log["cost"], (labels[log["context"]] != Y).sum(axis=1) - 3.0)
    np.testing.assert_array_equal(np.bincount(log["context"], log["train"] + log["heldout"]), 4)
    assert log["heldout"].sum() == math.ceil(0.25 * 61 * 4)
    rows = {(context, *action) for context, action in zip(log["context"].tolist(), Y.tolist(), strict=True)}
    assert len(rows) == len(Y) < 61 * 4


def test_whole_contexts_are_held_out(tmp_path):
    run_chain(tmp_path, seed=0, unit="context")
    log = read_npz(tmp_path / "replay4/log.npz", LOG)
    split = read_npz(tmp_path / "split.npz", ["train", "heldout"])
    for part in ("train", "heldout"):
        np.testing.assert_array_equal(np.unique(log["context"][log[part] > 0]), split[part])
        assert log[part].sum() == 4 * len(split[part])


def test_another_seed_draws_again_and_the_same_seed_gives_the_same_bytes(toy, tmp_path):
    def listing(folder):
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npz")}
        return {name: content for name, content in files.items() if "replay1" not in name}

    before = listing(toy)
    assert listing(run_chain(tmp_path / "same", seed=0)) == before
    drawn = ["split.npz", "logging.npz", *(f"replay4/{name}.npz" for name in ("log", "cost_model", "kl_dro", "dr"))]
    after = listing(run_chain(tmp_path / "other", seed=1))
    assert all(after[name] != before[name] for name in drawn)
    assert all(after[name] == before[name] for name in ("train.npz", "test.npz"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X.indices": [0, 9]}, "not a readable npz file: "),
        ({"X.data": [1j, 2]}, "X is not an array of numbers, but of complex128"),
        ({"X.indptr": None}, "not a readable npz file: \"There is no item named 'X.indptr.npy' in the archive\""),
        ({"labels": 1.0}, "labels has shape (), expected (rows, labels)"),
        ({"X.data": [1.0, np.inf]}, "X has inf in row 1, column 1, expected finite features"),
        ({"labels": [[1], [7]]}, "labels has 7 in row 1, label 0, expected 0 or 1"),
        ({"labels": [0, 4], "n_actions": 4}, "labels is 4 in row 1, expected 0 to 3"),
        ({"n_actions": 0, "labels": [0, 0]}, "labels is 0 in row 0, expected 0 to -1"),
    ],
)
def test_contexts_out_of_range_are_an_error(tmp_path, capsys, arrays, message):
    right = {"X.data": [1.0, 2.0], "X.indices": [0, 1], "X.indptr": [0, 1, 2], "X.shape": [2, 3], "labels": [[1], [0]]}
    path = tmp_path / "train.npz"
    np.savez(path, **{name: np.asarray(value) for name, value in (right | arrays).items() if value is not None})
    error = error_of(capsys, "split", {"train": path}, {"split": tmp_path / "split.npz"}, {**SPLIT, **AXES})
    assert error.startswith(f"{path}: {message}")


def test_a_fraction_that_leaves_nothing_to_train_on_is_an_error(toy, tmp_path, capsys):
    parameters = {**SPLIT, **AXES, "heldout_fraction": 0.999}
    error = error_of(capsys, "split", {"train": toy / "train.npz"}, {"split": tmp_path / "split.npz"}, parameters)
    expected = "no context is left to train on: a fraction of 0.999 holds out all of 61"
    assert error == f"{toy / 'train.npz'}: {expected}"
