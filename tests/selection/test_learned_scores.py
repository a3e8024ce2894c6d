"""Learned scores: cross-fitting, the family of policies, eligible actions, and what a linear policy cannot learn."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from drcrm import ActionLists, BanditLog, DoublyRobustDRO, SoftmaxPolicy, load_policy, off_policy_value
from drcrm.__main__ import main
from drcrm.arrays.tables import Table
from drcrm.cost_models.blended_model import blend_weights
from drcrm.cost_models.missing_cells import MissingCells, mark_missing
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.logging_policy import SUPPORT, LoggingPolicy
from drcrm.selection import learned_scores
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.learned_scores import fit_scores, learn_over_scores

ALGORITHM = Algorithm("KLDRO", "radius", [1e-3], {"estimate": "dr", "safe": True})


def draw_contexts(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return contexts with a constant, and their best of three actions, which is not linear in x."""
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    return X, (X[:, 0] * X[:, 1] > 0).astype(int) + (np.abs(X[:, 0]) > 1.5)


def draw_log(n: int = 900, seed: int = 0, logging: SoftmaxPolicy | None = None) -> tuple[BanditLog, SoftmaxPolicy]:
    rng = np.random.default_rng(seed)
    X, best = draw_contexts(n, rng)
    logging = logging or SoftmaxPolicy(0.5 * rng.normal(size=(3, 3)))
    action = logging.sample(X, rng)
    cost = -(rng.random(n) < 0.1 + 0.6 * (action == best)).astype(float)
    return BanditLog(X, action, np.exp(logging.log_prob(X, action)), cost, n_actions=3), logging


def first_features(fit: list) -> set[float]:
    """Return the first features of the contexts to which the nearest neighbours of a fit were fitted."""
    return {float(x) for model in fit[0].models[0].regressors_ for x in model._fit_X[:, 0]}


def test_candidates_are_charged_for_actions_that_the_heldout_rows_lack():
    """Without action 0 where it would be drawn often, policies that prefer it there have worse scores."""
    log, logging = draw_log(600)
    log = log.take(np.flatnonzero((log.Y > 0) | (log.X[:, 0] < 0.5)))
    cells = MissingCells(np.array([0]), np.array([[0.5, -np.inf, -np.inf]]), np.full((1, 3), np.inf))
    train, heldout = (mark_missing(part, cells) for part in (log.take(slice(0, 250)), log.take(slice(250, None))))
    charged, plain = (
        learn_over_scores(
            train, ALGORITHM.with_settings(features=[KNeighborsRegressor(9)]), part, LoggingPolicy(logging)
        )
        for part in (heldout, heldout.replace(rows=None))
    )
    assert heldout.column("lacked").any()
    scores = [np.array([candidate.scores["dr"] for candidate in learned.candidates]) for learned in (charged, plain)]
    difference = scores[0] - scores[1]
    assert (difference > -1e-12).all()
    assert difference.max() > 0.01


def test_training_scores_come_from_models_of_other_contexts():
    log, logging = draw_log(200)
    context = np.arange(200) // 4
    log = BanditLog(log.X[::4], log.Y, log.propensity, log.cost, context=context, n_actions=3)
    models = [KNeighborsRegressor(1), _Memory(1)]
    scores = fit_scores(log, LoggingPolicy(logging), models)
    transformer = scores.features.transformer
    *folds, whole = transformer.folds
    assert first_features(whole) == set(log.X[:, 0])
    number = np.array([[model.classes_.size for model in fold[1:]] for fold in folds])
    assert number.min() > 1
    of_fold = np.stack([transformer.scores(log.X, [fold]) for fold in folds])
    assert scores.scores_of(log.X) == pytest.approx((of_fold.mean(axis=0) + transformer.scores(log.X, [whole])) / 2)
    matches = np.isclose(of_fold, scores.training, atol=1e-12).all(axis=(2, 3))  # (fold, context)
    assert matches.any(axis=0).all()
    for number, contexts in enumerate(matches):
        seen = first_features(folds[number])
        own = np.flatnonzero(contexts & ~np.delete(matches, number, axis=0).any(axis=0))
        assert own.size
        assert not seen & set(log.X[own, 0])


class _Memory(KNeighborsClassifier):
    """Nearest neighbour that accepts weights."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


def test_groups_stay_together():
    log, logging = draw_log(300)
    groups = np.random.default_rng(0).integers(0, 30, 300)
    log = log.replace(rows=Table(300, {"groups": groups}), is_weighted=True)
    scores = fit_scores(log, LoggingPolicy(logging), [KNeighborsRegressor(1)])
    listed = scores.as_lists(log, scores.training)
    assert listed.column("groups").tolist() == groups.tolist()
    assert listed.is_weighted, "the bounds on policies over scores have the units of the log"
    for fit in scores.features.transformer.folds[:3]:
        is_inside = np.isin(log.X[:, 0], list(first_features(fit)))
        assert not set(groups[is_inside]) & set(groups[~is_inside])


def test_the_family_contains_the_logging_policy_and_expands_to_the_contexts():
    log, logging = draw_log()
    heldout, _ = draw_log(600, 1, logging)
    learned = learn_over_scores(log, ALGORITHM, heldout, LoggingPolicy(logging))
    features, fits = learned.candidates[0].policy.features, learned.as_arrays()
    scores = features.transformer.transform(heldout.X).reshape(600, 4, 3)
    assert scores[:, 0] == pytest.approx(np.log(np.maximum(logging.marginals(heldout.X), 1e-4)))
    [known] = [candidate.policy for candidate in learned.candidates if candidate.is_logging]
    assert known.marginals(heldout.X) == pytest.approx(logging.marginals(heldout.X), abs=1e-3)
    theta_of = fits["coef"][:, features.n_features :: 3, 0] * features.scale
    assert theta_of[fits["step"] == 0] == pytest.approx(np.outer([1.5, 2, 4, 8, 1], [1, 0, 0, 0]), abs=1e-12)
    steps = (1 - fits["step"][:4, None]) * [1, 0, 0, 0] + fits["step"][:4, None] * theta_of[0]
    assert theta_of[:5] == pytest.approx(np.vstack([steps, 10 * theta_of[:1]]), abs=1e-9)
    for candidate in learned.candidates:
        theta = candidate.policy.coef[features.n_features :: 3, 0] * features.scale
        weights = np.exp(np.einsum("j,mjk->mk", theta, scores))
        expected = weights / weights.sum(axis=1, keepdims=True)
        assert candidate.policy.marginals(heldout.X) == pytest.approx(expected, abs=1e-9)


def test_ineligible_actions_are_not_listed():
    log, logging = draw_log(600)
    eligible = np.random.default_rng(4).random((600, 3)) < 0.6
    eligible[np.arange(600), log.Y] = True
    some = BanditLog(log.X, log.Y, log.propensity, log.cost, n_actions=3, eligible=eligible)
    scores = fit_scores(some, LoggingPolicy(logging))
    listed = scores.as_lists(some, scores.training)
    assert listed.X.shape == (eligible.sum(), 4)
    row = listed.actions.starts[listed.context] + listed.Y
    assert listed.X[row] * scores.spreads == pytest.approx(scores.training[log.context, :, log.Y])


def draw_lists(n: int = 1500, seed: int = 0) -> tuple[BanditLog, SoftmaxPolicy, np.ndarray]:
    """Return a log of lists, its logging policy, and the click rates of the candidates, which are not linear in ψ."""
    rng = np.random.default_rng(seed)
    starts = np.append(0, np.cumsum(rng.integers(2, 8, n)))
    psi = rng.uniform(-1, 1, (starts[-1], 3))
    rate = 0.1 + 0.6 * (psi[:, 0] * psi[:, 1] > 0.1)
    lists, logging = ActionLists(psi, starts), SoftmaxPolicy([0.3, -0.2, 0.5])
    place = logging.sample(lists, rng)
    cost = -(rng.random(n) < rate[starts[:-1] + place]).astype(float)
    return BanditLog(lists, place, np.exp(logging.log_prob(lists, place)), cost), logging, rate


@pytest.mark.parametrize("known", [True, False])
def test_scores_of_listed_candidates(known):
    log, logging, _ = draw_lists()
    heldout, _, rate = draw_lists(1200, 1)
    learned = learn_over_scores(log, ALGORITHM, heldout, LoggingPolicy(logging) if known else None)
    lists = heldout.actions.unbind(heldout.X)
    features = learned.candidates[0].policy.features
    psi, deviation = heldout.X, features.transformer.deviation
    predicted = []
    for [blend] in features.transformer.folds:
        trees, ridge = blend.models
        costs = [trees.regressors_[0].predict(psi), ridge.features(psi) @ ridge.model.coef_ + ridge.model.intercept_]
        predicted.append(np.clip(blend.weights @ costs + blend.constant, *features.transformer.limits))
    modelled = np.average(predicted, axis=0, weights=[*[1] * learned_scores.FOLDS, learned_scores.FOLDS])
    base = logging.coef if known else features.transformer.logging_coef
    scores = np.column_stack([psi @ base, -modelled / deviation])
    theta = features.scale * learned.candidates[0].policy.coef[-2:]
    weights = np.exp(scores @ theta)
    expected = weights / np.repeat(np.add.reduceat(weights, lists.starts[:-1]), np.diff(lists.starts))
    assert learned.candidates[0].policy.marginals(lists) == pytest.approx(expected, abs=1e-9)
    [candidate] = [candidate.policy for candidate in learned.candidates if candidate.is_logging]
    assert candidate.marginals(lists) == pytest.approx(SoftmaxPolicy(base).marginals(lists), abs=1e-9)
    chosen = learned.candidates[learned.selected].policy
    gains = [(policy.marginals(lists) * rate).sum() / 1200 for policy in (chosen, logging)]
    assert gains[0] > gains[1] + 0.1
    fresh, _, rate = draw_lists(1200, 2)  # the held-out rows chose the candidate
    value = off_policy_value(chosen, fresh, cost_model=learned.cost_model)
    assert value.low < -(chosen.marginals(fresh.actions.unbind(fresh.X)) * rate).sum() / 1200 < value.high


def test_what_learned_scores_need():
    rng = np.random.default_rng(5)
    labels = BanditLog(np.ones((40, 1)), rng.integers(0, 2, (40, 2)), np.full(40, 0.25), -rng.random(40))
    with pytest.raises(InputError, match="need one action of K or of a list per row, got 2 labels"):
        fit_scores(labels, None)
    log, _ = draw_log(90)
    with pytest.raises(InputError, match="learned scores have their own cost model"):
        DoublyRobustDRO(features="scores").fit(
            log.X, log.Y, propensity=log.propensity, cost=log.cost, cost_model=HistGradientBoostingRegressor()
        )
    with pytest.raises(InputError, match=r"the logging policy's coef has shape \(2, 3\)"):
        fit_scores(log, LoggingPolicy(SoftmaxPolicy(np.zeros((2, 3)))))
    with pytest.raises(InputError, match="expected a regressor of scikit-learn, which models the costs"):
        fit_scores(log, None, [KNeighborsClassifier(1)])
    with pytest.raises(InputError, match="a classifier needs one action of K per row, got lists of actions"):
        fit_scores(draw_lists(40)[0], None, [KNeighborsRegressor(1), HistGradientBoostingClassifier()])


def test_decisions_on_a_sparse_table_have_the_probabilities_of_the_table(tmp_path):
    log, _ = draw_log(500)
    city = np.random.default_rng(1).integers(0, 60, 500)
    frame = pd.DataFrame({"x": log.X[:, 0], "city": city, "action": log.Y, "p": log.propensity, "cost": log.cost})
    frame.to_csv(tmp_path / "log.csv", index=False)
    mapping = {"action": "action", "propensity": "p", "cost": "cost", "algorithm": "kl_dro_dr_scores"}
    config = json.dumps(mapping | {"features": {"numeric": ["x"], "categorical": ["city"]}})
    policy, best = (
        tmp_path / "policy.npz",
        tmp_path / "policy.candidate.npz",
    )  # which one has scores depends on the verdict
    assert main(["learn", str(tmp_path / "log.csv"), "--config", config, "--output", str(policy)]) == 0
    served = load_policy(best if best.exists() else policy)
    contexts = frame[["x", "city"]][:40].to_dict("records")
    X = served._encode(contexts)
    assert sparse.issparse(X)
    scores = np.vstack([served._scores(context) for context in contexts])
    assert scores == pytest.approx(served.policy.decision_function(X), abs=1e-6)


def test_learn_fits_scores_of_listed_candidates_and_the_policy_file_keeps_them(tmp_path, capsys):
    log, _, _ = draw_lists(1500)
    starts, psi = log.actions.starts, log.X
    frame = pd.DataFrame(psi, columns=["x", "y", "z"]).assign(request=np.repeat(np.arange(1500), np.diff(starts)))
    frame.loc[starts[:-1] + log.Y, ["shown", "p", "cost"]] = np.column_stack([log.Y * 0 + 1, log.propensity, log.cost])
    frame.fillna({"shown": 0}).to_csv(tmp_path / "log.csv", index=False)
    mapping = {"list": "request", "chosen": "shown", "propensity": "p", "cost": "cost"}
    config = json.dumps(mapping | {"features": {"numeric": ["x", "y", "z"]}})
    table, policy, decisions = (str(tmp_path / name) for name in ("log.csv", "p.npz", "d.csv"))
    assert main(["learn", table, "--config", config, "--output", policy, "--verbose"]) == 0
    assert "learned scores (2 of 2); drcrm export cannot write it" in capsys.readouterr().err
    assert main(["predict", policy, table, "--output", decisions]) == 0
    served, drawn = load_policy(policy), pd.read_csv(decisions)
    assert served.policy.features is not None
    rows_checked = 0
    for row in range(10):
        candidates = frame[["x", "y", "z"]][starts[row] : starts[row + 1]].to_dict("records")
        draws = dict(served.decide({"_multi": candidates}, random_state=seed) for seed in range(10))
        if drawn["action"][row] in draws:
            assert draws[drawn["action"][row]] == pytest.approx(drawn["propensity"][row], abs=1e-12)
            rows_checked += 1
    assert rows_checked > 5


@pytest.mark.usefixtures("shipped_sizes")
def test_the_cost_model_blends_trees_and_ridge_by_least_squares():
    log, logging = draw_log(600)
    log = log.recount(np.random.default_rng(6).integers(0, 3, 600))
    *folds, whole = (fit[0] for fit in fit_scores(log, LoggingPolicy(logging)).features.transformer.folds)
    modelled = [[model.effects(log.X, log.actions) for model in fit.models] for fit in folds]
    of_fold = np.stack(modelled)[..., np.arange(len(log.Y)), log.Y]  # (fold, model, row)
    fold = context_folds(log, learned_scores.FOLDS)[log.context]
    design = np.column_stack([of_fold[fold, 0, np.arange(len(fold))], of_fold[fold, 1, np.arange(len(fold))]])
    residual = log.cost - whole.constant - design @ whole.weights
    assert (whole.weights > 0).all()
    assert np.abs(log.count @ np.column_stack([residual, residual[:, None] * design])).max() < 1e-9 * log.size


def test_a_model_that_predicts_nothing_has_no_weight():
    rng = np.random.default_rng(8)
    log, _ = draw_log(500)
    predicted = np.column_stack([log.cost + 0.1 * rng.normal(size=500), 3 - log.cost])
    weights, constant = blend_weights(log, predicted)
    assert weights == pytest.approx([np.cov(predicted[:, 0], log.cost)[0, 1] / predicted[:, 0].var(ddof=1), 0])
    assert constant == pytest.approx(log.cost.mean() - weights[0] * predicted[:, 0].mean())
    assert blend_weights(log, np.ones((500, 2)))[0] == pytest.approx([0, 0])


def test_the_first_score_shows_which_of_many_actions_lack_support():
    rng, n_actions = np.random.default_rng(9), 600
    X = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
    logging = SoftmaxPolicy(np.vstack([np.zeros((2, n_actions)), 20.0 * (np.arange(n_actions) < 5)]))
    action = logging.sample(X, rng)
    log = BanditLog(X, action, np.exp(logging.log_prob(X, action)), -rng.random(300), n_actions=n_actions)
    model = learn_over_scores(
        log, ALGORITHM.with_settings(features=[{"nystroem": 20}]), None, LoggingPolicy(logging)
    ).cost_model
    probability = model.logging.policy.marginals(X)
    assert probability[:, 5:].max() < SUPPORT / n_actions < probability[:, :5].min()


@pytest.mark.parametrize("contexts", [1, 2])
def test_logs_of_fewer_contexts_than_folds_have_scores(contexts):
    log, _ = draw_log(60)
    few = BanditLog(log.X[:contexts], log.Y, log.propensity, log.cost, context=np.arange(60) % contexts, n_actions=3)
    scores = fit_scores(few, None)
    assert np.isfinite(scores.training).all()
    assert np.isfinite(scores.scores_of(log.X)).all()
