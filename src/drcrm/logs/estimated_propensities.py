"""Estimated propensities of a log without logged ones: behaviour cloning, cross-fitted and calibrated, and trees.

Boosted trees correct the model of the logged actions where it is wrong, even if the error is not linear in x. Let
q(b|x) be the model. For each logged row one more action is drawn from q. Boosted trees on context and action learn to
distinguish logged from drawn actions. Their log odds h(x, b) estimate log π0/q, so the corrected model is

    q'(b|x) ∝ q(b|x) e^{h(x, b)}.

For label vectors, each label is corrected separately. Like q, the trees that correct a row are fitted to other folds.

Extremely randomised trees, a forest, split at random thresholds. So they find interactions of features, such as the
sign of x·y, whose parts predict nothing. A forecast f(x) estimates the mean cost of a context under the logging policy.
Right propensities p give weights w = π/p with E w f = E f, because f does not depend on the action.

Sources: Friedman 2001 for boosted trees; Gutmann & Hyvärinen 2010 for log ratios by classification; Geurts, Ernst &
Wehenkel 2006 for the forest.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from drcrm.arrays.mapped_arrays import scratch_path, write_blocks
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp, run_in_order
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.logs.batches import blocks_of, encode, fit_encoding
from drcrm.logs.encoding.base import Encoding
from drcrm.optimization.starts import clone_folds, marginals_of_folds
from drcrm.policies.exponential import LinearPolicy

FOLDS = 5
MOST, MOST_SCORES = 2**19, 2**25  # largest numbers of rows, and of rows times actions, that the model is fitted to
TOLERANCE = 1e-4  # tolerance of the fits; not tight, because the policies are calibrated afterwards
LARGEST = 3.0  # largest |log β| of the calibration
LEAST = 1e-300  # smallest possible estimate
SUPPORT_ROWS = 50  # logged actions that support a floor; its relative standard error is then 14 %
ROUNDING = 1e-12  # relative
SECOND, FORECASTS = "second_propensity", "forecasts"
MAX_SCORES = 2**21  # probabilities that are corrected
MAX_CODES = 255  # largest number of categories of the trees; more actions are ordered by their numbers
MIN_CONTEXTS = 400  # on smaller logs, trees find nothing
TREES: dict[str, Any] = {"max_iter": 30, "max_leaf_nodes": 8, "min_samples_leaf": 40, "early_stopping": False}
MAX_FEATURES = 50  # if there are more, the trees see those that are most often not 0
MAX_ACTIONS = 255  # with more actions, forests take too much memory
MAX_ROWS = 40_000  # rows, times labels, that the trees of a fold are fitted to
FOREST: dict[str, Any] = {"n_estimators": 50, "min_samples_leaf": 10, "max_features": None, "random_state": 0}
BOOSTING: dict[str, Any] = {"max_iter": 100, "max_leaf_nodes": 8, "early_stopping": False, "random_state": 0}
SHARE = 0.01  # of the shares of the actions in the log, which are mixed with the forest's estimates


def estimate_propensities(log: BanditLog, folds: int = FOLDS) -> BanditLog:
    """Return a reader's log with the estimated probability of each logged action as its propensity.

    π̂(y|x) ∝ e^{β s(y)}. The scores s have the largest penalised likelihood on the other folds: a softmax, for label
    vectors a logistic regression for each label, for lists a conditional logit. The number β maximises the likelihood
    of the rows left out. All rows of a context, or of a group, are in one fold. Estimates are at least 1/n, or n^{−q}
    for q labels, because n rows cannot distinguish smaller probabilities from 0, and at least :func:`supported_floor`.

    The model is fitted to a random sample of at most 2¹⁹ rows, by contexts or groups. Other rows get the mean over the
    folds. Single actions and lists have a second model, the boosted trees of :func:`boost_propensities`, and one of K
    actions a third, a forest. The mapping's ``propensity_model`` names the model, with ``auto`` the one with the
    largest cross-fitted likelihood. The log gets the estimates of the best other model as the column SECOND, and
    forecasts of the cost and of the guardrails' costs as the column FORECASTS. Label vectors have only the first model,
    and larger logs have only the first model and no forecasts.

    Parameters
    ----------
    log : BanditLog
        Log of a reader, whose X is a table of features.
    folds : int
        Largest number of folds; at most the number of contexts or groups.

    Raises
    ------
    InputError
        If the log has a single context or group.
    """
    drawn = _draw_rows(log)
    sample = log if drawn.all() else log.take(drawn)
    encoding = fit_encoding(sample)
    sample = _encode(sample, encoding)
    fold = context_folds(sample, folds)
    if not fold.any():
        raise InputError("the log has a single context or group, expected at least two to estimate propensities")
    policies = clone_folds(sample, fold, TOLERANCE)
    first = marginals_of_folds(sample, policies, fold)
    mean, power = _calibrate(sample, first)
    if not drawn.all():
        least = max(_lowest(sample), supported_floor(sample, mean))
        estimates = _of_rows(sample, mean, least)
        return log.replace(propensity=_of_all_rows(log, drawn, estimates, encoding, policies, power, least))
    estimates, *second = _by_model(sample, mean, fold)
    if sample.n_contexts < MIN_CONTEXTS:
        return log.replace(propensity=write_blocks(scratch_path(log.cost), [estimates]))
    guarded = [] if (costs := log.column("guardrails")) is None else [costs]
    forecasts = forecast_costs(sample, fold, np.column_stack([log.cost, *guarded]))
    rows: Any = log.rows
    columns = {FORECASTS: forecasts, SECOND: second[0] if second else None}
    return log.replace(propensity=write_blocks(scratch_path(log.cost), [estimates]), rows=rows.assign(**columns))


def estimate_before(log: BanditLog, is_before: np.ndarray) -> np.ndarray:
    """Return propensities of all rows, (n,), by models that are fitted to the rows of a mask, (n,).

    The models are those of :func:`estimate_propensities`. Estimates of the rows of the mask come from models of other
    folds. Estimates of other rows come from models of all rows of the mask. If the log is too large for a model of all
    rows, the propensities of the log are returned. The log is encoded. The mask has all rows of a context or none.
    """
    of_known = context_folds(log.take(is_before), FOLDS)
    if not (_draw_rows(log).all() and of_known.any()):
        return log.propensity
    known = log.replace(count=log.count * is_before)
    fold = np.full(log.n_contexts, of_known.max() + 1)
    fold[np.unique(log.context[is_before])] = of_known
    first = marginals_of_folds(known, clone_folds(known, fold, TOLERANCE), fold)
    return _by_model(known, _calibrate(known, first)[0], fold)[0]


def _lowest(sample: BanditLog) -> float:
    """Return the smallest probability that the rows of a log can distinguish from 0."""
    return max(float(np.count_nonzero(sample.count)) ** -sample.Y[0].size, LEAST)


def _by_model(sample: BanditLog, mean: np.ndarray, fold: np.ndarray) -> list[np.ndarray]:
    """Return the propensities by the mapping's model, or else the likeliest one, and by the best other, if any."""
    models, lowest, mapping = {"softmax": mean}, _lowest(sample), sample.description and sample.description.mapping
    if sample.n_contexts >= MIN_CONTEXTS:
        models |= {name: _calibrate(sample, model)[0] for name, model in _other_models(sample, mean, fold).items()}
    ranked = sorted(models, key=lambda name: -(sample.count @ np.log(_of_rows(sample, models[name], lowest))))
    wanted = mapping.propensity_model if mapping else None
    best = wanted if wanted in models else ranked[0]
    chosen = [best, *(name for name in ranked if name != best)][:2]
    floors = [max(lowest, supported_floor(sample, models[name])) for name in chosen]
    return [_of_rows(sample, models[name], floor) for name, floor in zip(chosen, floors, strict=True)]


def _other_models(sample: BanditLog, mean: np.ndarray, fold: np.ndarray) -> dict[str, np.ndarray]:
    """Return the probabilities of all actions by the models that correct or replace the softmax ``mean``."""
    models = {}
    if sample.actions.are_choices:
        models["trees"] = boost_propensities(sample, mean, fold)
    if 0 < sample.actions.n_classes <= MAX_ACTIONS:
        models["forest"] = forest_propensities(sample, fold)
    return models


def _of_all_rows(
    log: BanditLog,
    drawn: np.ndarray,
    estimates: np.ndarray,
    encoding: Encoding,
    policies: list[LinearPolicy],
    power: float,
    least: float,
) -> np.ndarray:
    """Return the estimates of the drawn rows, and for other rows the mean over the policies of the folds."""
    ends = np.cumsum(drawn)

    def estimate(place: slice, block: BanditLog) -> np.ndarray:
        inside, values = drawn[place], np.empty(len(block.Y))
        first = ends[place.start] - inside[0]
        values[inside] = estimates[first : first + inside.sum()]
        if not inside.all():
            rest = _encode(block.take(~inside), encoding)
            means = (power_of(rest, policy.marginals_on(rest.X, rest.actions), power) for policy in policies)
            values[~inside] = np.mean([_of_rows(rest, mean, least) for mean in means], axis=0)
        return values

    calls = (partial(estimate, place, block) for place, block in blocks_of(log))
    return write_blocks(scratch_path(log.cost), run_in_order(calls))


def supported_floor(log: BanditLog, mean: np.ndarray) -> float:
    """Return the least propensity that the log supports, from a model's probabilities of all actions; 0 if it has none.

    The rate at t is the number of logged actions that the model gives at most t, per possible action with at most t.
    The floor is the smallest rate over all t with SUPPORT_ROWS logged actions, the lowest level of an isotonic
    calibration. It applies only if the model expects significantly fewer logged actions than there are at the smallest
    of these t. Label vectors have no floor.
    """
    if not log.actions.are_choices or log.size < SUPPORT_ROWS:
        return 0.0
    logged = np.exp(log.actions.log_prob(mean, log.Y, log.context))
    rows, cells = np.argsort(logged), np.argsort(mean, axis=None)
    weight = np.broadcast_to(log.actions.broadcast(np.bincount(log.context, log.count, log.n_contexts)), mean.shape)
    possible, expected = (np.cumsum(values.ravel()[cells]) for values in (weight, weight * mean))
    levels = np.unique(logged)
    n_logged = np.cumsum(log.count[rows])[np.searchsorted(logged[rows], levels, side="right") - 1]
    levels, n_logged = levels[n_logged >= SUPPORT_ROWS], n_logged[n_logged >= SUPPORT_ROWS]
    last = np.searchsorted(mean.ravel()[cells], levels * (1 + ROUNDING), side="right") - 1
    has_misfit = expected[last[0]] < n_logged[0] - 2 * np.sqrt(n_logged[0])
    return float((n_logged / possible[last]).min()) if has_misfit else 0.0


def _calibrate(log: BanditLog, mean: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the power of the probabilities with the largest likelihood, in the shape of scores, and its exponent β."""

    def loss(log_power: float) -> float:
        return -log.count @ log.actions.log_prob(power_of(log, mean, np.exp(log_power)), log.Y, log.context)

    power = np.exp(minimize_scalar(loss, bounds=(-LARGEST, LARGEST), method="bounded").x)
    return power_of(log, mean, power), power


def _of_rows(log: BanditLog, mean: np.ndarray, least: float) -> np.ndarray:
    """Return the probabilities of the logged actions, (n,), at least ``least``."""
    return np.clip(np.exp(log.actions.log_prob(mean, log.Y, log.context)), least, 1)


def _draw_rows(log: BanditLog) -> np.ndarray:
    """Return the mask of the rows that the model is fitted to: at least two units, at most 2¹⁹ rows if possible.

    With many actions there are fewer rows, because the probabilities of all actions are in memory.
    """
    unit, most = log.unit_numbers, min(MOST, MOST_SCORES // max(log.actions.n_classes, 1))
    if len(unit) <= most:
        return np.ones(len(unit), dtype=bool)
    sizes = np.bincount(unit)
    order = np.random.default_rng(0).permutation(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= most]] = True
    drawn[order[:2]] = True
    return drawn[unit]


def _encode(log: BanditLog, encoding: Encoding) -> BanditLog:
    return encode(log.replace(propensity=np.ones(len(log.Y))), encoding)


def boost_propensities(log: BanditLog, modelled: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return probabilities of all actions, corrected by boosted trees, in the shape of scores.

    The log has no rows of count 0. ``modelled`` is q of all actions, and ``fold``, (m,), the fold of each context.
    """
    if log.n_contexts < MIN_CONTEXTS or not fold.any():
        return modelled
    from sklearn.ensemble import HistGradientBoostingClassifier  # its import takes a second, and small logs need none

    rng = np.random.default_rng(2)
    X, drawn, order = dense_features(log.X), log.actions.sample(modelled, rng), rng.permutation(log.n_contexts)
    kept = np.zeros(log.n_contexts, dtype=bool)
    kept[order[: MAX_SCORES * log.n_contexts // modelled.size + 1]] = True
    pairs = [_pairs(log, X, actions) for actions in (log.Y, drawn[log.context])]
    n_codes = int(np.prod(log.actions.shape)) * (2 - log.actions.are_choices) if log.actions.are_shared else 0
    categories = [X.shape[1]] if 0 < n_codes <= MAX_CODES else None
    place, logit = draw_rows(log, rng), np.zeros_like(modelled)
    with limit_openmp():
        for number in range(fold.max() + 1):
            outside = place[fold[log.context[place]] != number][: MAX_ROWS // pairs[0].shape[1]]
            rows = np.concatenate([values[outside].reshape(-1, values.shape[-1]) for values in pairs])
            is_logged = np.repeat([True, False], len(rows) // 2)
            trees = HistGradientBoostingClassifier(**TREES, categorical_features=categories, random_state=0)
            trees.fit(rows, is_logged)
            inside = np.flatnonzero((fold == number) & kept)
            _, features, place_of = log.actions.select(inside, X, np.arange(len(X)))
            logit[place_of] = _log_odds(trees, features, n_codes, not log.actions.are_choices)
    return power_of(log, modelled, 1, logit)


def power_of(log: BanditLog, modelled: np.ndarray, power: float, tilt: Any = 0.0) -> np.ndarray:
    """Return probabilities proportional to q^power e^tilt, in the shape of scores; ``tilt`` is added to the scores."""
    tiny = np.finfo(float).tiny
    scores = np.log(np.maximum(modelled, tiny))
    if not log.actions.are_choices:
        scores -= np.log(np.maximum(1 - modelled, tiny))
    return log.actions.log_partition(power * scores + tilt)[1]


def _pairs(log: BanditLog, X: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return the features of each row's context and action, (n, 1, d), or of its q label values, (n, q, d).

    The last feature is the number of the action or label value. Lists have features of the action itself instead.
    """
    features = X[log.actions.feature_rows(actions, log.context)][:, None]
    if not log.actions.are_shared:
        return features
    codes = log.actions.codes(actions)
    repeated = np.broadcast_to(features, (*codes.shape, X.shape[1]))
    return np.concatenate([repeated, codes[:, :, None]], axis=2)


def _log_odds(trees: Any, X: np.ndarray, n_codes: int, has_labels: bool) -> np.ndarray:
    """Return the log odds of each action of the contexts; for labels, of the value 1 minus those of the value 0."""
    if not n_codes:
        return trees.decision_function(X)
    odds = [trees.decision_function(np.column_stack([X, np.full(len(X), code)])) for code in range(n_codes)]
    return np.stack(odds[1::2], axis=1) - np.stack(odds[::2], axis=1) if has_labels else np.stack(odds, axis=1)


def dense_features(X: Any) -> np.ndarray:
    """Return at most MAX_FEATURES columns of X as a dense array."""
    if X.shape[1] > MAX_FEATURES:
        X = X[:, np.sort(np.argsort(-np.asarray((X != 0).sum(axis=0)).ravel(), kind="stable")[:MAX_FEATURES])]
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def draw_rows(log: BanditLog, rng: np.random.Generator) -> np.ndarray:
    """Return rows in random order, as often as they occur; weights in place of copies would make the trees slow."""
    if log.count.max() == 1:
        return rng.permutation(np.flatnonzero(log.count))
    return rng.choice(len(log.Y), min(log.size, 2 * MAX_ROWS), p=log.count / log.size)


def forest_propensities(log: BanditLog, fold: np.ndarray) -> np.ndarray:
    """Return probabilities of all K actions, (m, K), by forests that are fitted to the other folds of contexts."""
    from sklearn.ensemble import ExtraTreesClassifier  # its import takes a second, and small logs need none

    X, K = dense_features(log.X), log.actions.n_classes
    mean = np.tile(SHARE * np.bincount(log.Y, log.count, K) / log.size, (log.n_contexts, 1))
    for rows, inside in _parts(log, fold):
        forest = ExtraTreesClassifier(**FOREST).fit(X[log.context[rows]], log.Y[rows])
        mean[np.ix_(inside, forest.classes_)] += (1 - SHARE) * forest.predict_proba(X[inside])
    return mean


def forecast_costs(log: BanditLog, fold: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return forecasts of outcomes (n, k), by boosted trees that are fitted to the contexts of the other folds."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # imported here for the same reason

    X = log.actions.combine_rows(dense_features(log.X), _mean_of_lists)
    forecasts = np.empty((log.n_contexts, costs.shape[1]))
    with limit_openmp():
        for rows, inside in _parts(log, fold):
            for place, cost in enumerate(costs[rows].T):
                trees = HistGradientBoostingRegressor(**BOOSTING).fit(X[log.context[rows]], cost)
                forecasts[inside, place] = trees.predict(X[inside])
    return forecasts[log.context]


def _parts(log: BanditLog, fold: np.ndarray) -> Any:
    """Yield for each fold the rows outside it, at most MAX_ROWS of them, and the contexts inside."""
    order = draw_rows(log, np.random.default_rng(4))
    for number in range(fold.max() + 1):
        yield order[fold[log.context[order]] != number][:MAX_ROWS], np.flatnonzero(fold == number)


def _mean_of_lists(features: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the mean features of each list."""
    return np.add.reduceat(features, starts[:-1]) / np.diff(starts)[:, None]
