"""Steps of a run after its log exists: fit the cost model and the algorithms, train classifiers, and measure losses.

The rules in ``workflow/rules/learn.smk`` have the names of these functions. A rule's command, ``learn.fit --log=PATH …
--settings=JSON``, calls ``fit({"log": PATH, …}, settings)``.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, prefix_errors
from drcrm.evaluation import default_estimate
from drcrm.files import read_npz, write_csv, write_npz
from drcrm.paper import CERTIFICATE, COLUMNS, GRID_COLUMNS, LOGGING, SKYLINE
from drcrm.paper.array_files import read_cost_model, read_fits, read_log, read_policy, read_truth
from drcrm.paper.simulation import Rates, Truth, generator
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.policies.stored_policies import arrays_of, features_of
from drcrm.risks import KLBall, VariancePenalizedRisk
from drcrm.selection.score_names import SCORES


def cost_model(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fit the cost model to the training part of a log.

    Reads ``log``. Writes ``model``, an npz file. Its arrays are the intercept, the penalty, and coef
    (features + 1, labels + 1). The last column of coef belongs to no label. The intercept is 0, because one feature is
    constant. If the actions have context effects, the file also has their covariance, (labels + 1, labels + 1), and the
    noise.
    """
    train, _ = read_log(files["log"])
    model = CostModel().fit(train)
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "penalty": np.array(model.penalty_)}
    if train.actions.prefers_context_effects:
        sample = PreparedLog(train).sample.log  # the whole log unless it is large
        effects = context_effects(sample, model.effects(sample.X, sample.actions))
        if effects.noise > 0:
            arrays |= {"covariance": effects.covariance, "noise": np.array(effects.noise)}
    write_npz(files["model"], **arrays)


def fit(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fit an algorithm for every value of its grid and score every fit on the held-out part of the log.

    Parameters
    ----------
    files
        ``log``; its contexts are the independent units of the training part, and rows those of the held-out part.
        Optional are ``logging``, the policy π0 for starts and support, and ``cost_model``, which algorithms with a
        feature map do not use. A π0 other than a CRF, such as ε-greedy, is stored with a feature map. Then support and
        scores use its probabilities, and fits start at the closest policy that is linear in the features. The step
        writes ``fits``, an npz file with arrays for k candidates and s held-out scores, in the order of ``SCORES``. The
        candidates are the fits along the grid; with ``safe``, others follow, and the last one is π0, with NaN in grid.

        - grid, ridge, step, sharpness, objective, iterations, converged: (k,)
        - coef: (k, features, labels)
        - scores: (k, s)
        - chosen: (s,), the index of the candidate that each score chooses; −1 if the score is NaN for all
        - tilt: (1,), the strength κ with which the cost model tilts the start
        - features: the fitted feature map as bytes, if there is one
    settings
        The algorithm's entry in the configuration, such as ``estimator``, ``parameter``, ``grid`` and ``options``, and
        ``stopping``. If the entry's ``variance_penalty_scale``, an option of the experiment, is "calibrated", POEM's
        grid is in units of λ0, which depends on the log. Wildcards of the rule are also there, unused.

    Notes
    -----
    :func:`drcrm.selection.grid_search.learn_with_features` makes a fit by L-BFGS for each grid value. With the option
    ``safe`` it adds fits with a ridge towards π0 and policies on the way from π0 to a fit.
    """
    from drcrm.logging_policy import LoggingPolicy  # imported here, like the next ones: scipy.optimize is slow
    from drcrm.optimization.lbfgs import LbfgsSettings
    from drcrm.paper.reference_policies import closest_policy, with_probabilities
    from drcrm.selection.algorithms import Algorithm, find_risk
    from drcrm.selection.fit_settings import FitSettings
    from drcrm.selection.grid_search import calibrated_penalty, learn_with_features

    # Errors of the algorithm are reported before the log is read.
    algorithm = Algorithm.of_entry(settings, settings=FitSettings(LbfgsSettings(stopping=settings["stopping"])))
    scale, risk = settings.get("variance_penalty_scale"), find_risk(settings["estimator"])
    is_calibrated = scale == "calibrated" and risk is VariancePenalizedRisk
    train, heldout = read_log(files["log"])
    logging = None
    if "logging" in files:
        policy = read_policy(files["logging"], train.actions)
        if policy.features:
            train, heldout = (with_probabilities(log, policy) for log in (train, heldout))
            policy = closest_policy(train)
        logging = LoggingPolicy.of(policy, train)
    model = read_cost_model(files["cost_model"]) if "cost_model" in files and not algorithm.settings.features else None
    if is_calibrated:
        with prefix_errors(files["log"]):
            algorithm = replace(algorithm, grid=[*(calibrated_penalty(train) * algorithm.values)])
    learned = learn_with_features(train, algorithm, heldout, logging, model)
    arrays = arrays_of(learned.candidates[0].policy) | learned.as_arrays()
    if is_calibrated:
        configured = dict(zip(algorithm.values, settings["grid"], strict=True))
        arrays["grid"] = np.array([configured.get(value, value) for value in arrays["grid"]], dtype=float)
    write_npz(files["fits"], **arrays)
    for problem, mask in {
        "no convergence": ~arrays["converged"],
        "stopped at the start": arrays["converged"] & (arrays["iterations"] == 0) & (arrays["step"] == 1),
    }.items():
        values = [f"{algorithm.parameter} {v:g}" if algorithm.parameter else "all" for v in arrays["grid"][mask]]
        if values:
            print(f"{algorithm.title}: {problem}: {', '.join(values)}", file=sys.stderr)


def classify(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Train a reward-weighted classifier, a model of the costs, or a user's competitor, and predict the test contexts.

    Reads ``log``, ``logging`` and ``test``. Writes ``probabilities``: npz with probability (contexts, actions or
    labels).
    """
    from drcrm.paper.reference_policies import action_probabilities, cheapest_actions, competitor_probabilities

    train, _ = read_log(files["log"])
    X, _ = read_truth(files["test"])
    with prefix_errors(files["log"]):
        if "classifier" in settings:
            train.actions.require_classes("a classifier")
        seed = int(generator(settings["dataset"], settings["seed"], "classify").integers(2**31))
        kind, weights = settings.get("classifier"), settings.get("weights") or "none"
        if kind is None:
            probability = competitor_probabilities(train, X, settings["competitor"], seed)
        elif kind == "cost_trees":
            probability = cheapest_actions(train, X, read_policy(files["logging"], train.actions), seed)
        else:
            probability = action_probabilities(train, X, kind, weights, seed)
    write_npz(files["probabilities"], probability=probability)


def evaluate(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Measure all policies of a run: losses on the test contexts, and certificates on the held-out part of the log.

    Parameters
    ----------
    files
        ``test`` contexts, ``log``, the policies ``logging`` (π0) and ``skyline``, and lists of ``fits`` and
        ``classifiers``, whose file names are those of their algorithms. ``cost_model`` is optional. It
        writes two csv files: ``metrics`` has a row for each algorithm and selection criterion, and ``grids`` one for
        each grid value of each algorithm, with its held-out scores and losses.
    settings
        ``dataset``, ``seed``, ``replay_count``, ``selection``, ``click_rates``, ``test_shift`` and
        ``absent_label_score``. The last concerns labels that occur in no training context of π0. Their part of π0's
        loss is computed from π0's probabilities ("logged"), or it is ½ ("half"). ``test_shift`` is None, or the radius
        within which classes, or quarters by a feature, get the shares in the test set that are worst for π0.

    Notes
    -----
    Losses are Hamming losses in labels, or error rates for one action of K. The columns ``estimate`` and ``bound`` of a
    chosen policy have the same unit. The estimate is doubly robust with a cost model and self-normalised without one.
    The bound comes from a KL ball, with contexts as independent units. The bounds for all values of a grid hold
    simultaneously, with a probability that tends to at least 0.95 as the number of contexts grows. Actions without
    support under π0 are charged the largest cost. Bounds can be too low if ``effective_size``, in rows, is below about
    10. If rows rather than contexts are held out, the bound is on the cost in the logged contexts, not in new ones.
    """
    from drcrm.logging_policy import SUPPORT, restrict_to_support

    selections = settings["selection"]
    X, truth = read_truth(files["test"])
    logging, skyline = (read_policy(files[name], truth.actions) for name in (LOGGING, SKYLINE))
    train, heldout = read_log(files["log"])
    model = None
    if "cost_model" in files:
        model = restrict_to_support(read_cost_model(files["cost_model"]), train, logging, SUPPORT)
    certify = partial(_certify, heldout, truth, settings["click_rates"], logging, model)
    drawn: Any = slice(None)
    if settings["test_shift"] is not None:
        drawn = shifted_rows(truth, X, logging, settings["test_shift"])
        X, truth = X[drawn], truth[drawn]
    half = settings["absent_label_score"] == "half"
    absent = read_npz(files["logging"], ["absent"])["absent"] if half else None
    by_algorithm = {LOGGING: dict.fromkeys(selections, truth.losses(logging, X, absent))}
    key = {name: settings[name] for name in ("dataset", "replay_count", "seed")}
    grid_rows = []
    for path in map(Path, files["fits"]):
        rows, by_algorithm[path.stem] = _grid(path, X, truth, certify, selections)
        grid_rows += [{**key, "algorithm": path.stem, **row} for row in rows]
    for path in map(Path, files["classifiers"]):
        probability = read_npz(path, ["probability"])["probability"][drawn]
        by_algorithm[path.stem] = dict.fromkeys(selections, truth.losses_of_probabilities(probability))
    by_algorithm[SKYLINE] = dict.fromkeys(selections, truth.losses(skyline, X))
    rows = [
        {**dict.fromkeys(COLUMNS), **key, "algorithm": algorithm, "selection": selection, **measured}
        for algorithm, by_selection in by_algorithm.items()
        for selection, measured in by_selection.items()
    ]
    write_csv(files["grids"], GRID_COLUMNS, grid_rows)
    write_csv(files["metrics"], COLUMNS, rows)


def shifted_rows(truth: Truth, X: Features, logging: LinearPolicy, radius: float) -> np.ndarray:
    """Return the row numbers of a test set of the same size in which the strata have the worst shares.

    Contexts can be repeated or left out. Strata are classes, or quarters by a feature. Their shares are within the KL
    divergence ``radius`` of today's, and the expected loss of the logging policy is the largest. Within a stratum,
    contexts are repeated equally often.
    """
    stratum = truth.strata(X)
    members = [np.flatnonzero(stratum == number) for number in np.unique(stratum)]
    size = np.array([*map(len, members)])
    loss = [truth[rows].losses(logging, X[rows])["expected_loss"] for rows in members]
    _, share = KLBall(radius)(np.array(loss), size)
    cumulated = np.cumsum(np.repeat(share / size, size))
    drawn = np.searchsorted(cumulated / cumulated[-1], (np.arange(len(truth)) + 0.5) / len(truth))
    return np.sort(np.concatenate(members)[drawn])


def _certify(
    heldout: BanditLog,
    truth: Truth,
    clicks: Rates,
    logging: LinearPolicy,
    cost_model: Any,
    policy: LinearPolicy,
    choices: int,
) -> dict[str, float]:
    """Return estimate, bound and effective size of one of ``choices`` policies; {} if there is no certificate.

    They come from the held-out part of a log; the fits and the cost model come from its training part.
    """
    from drcrm.certificates import policy_certificate

    try:
        with warnings.catch_warnings():
            # The column effective_size replaces the first warning.
            warnings.filterwarnings("ignore", "the effective sample size is|the mean weight is")
            certificate = policy_certificate(
                policy,
                heldout,
                confidence=0.95,
                choices=choices,
                estimate=default_estimate(cost_model is not None),
                cost_model=cost_model,
                logging_policy=logging,
                method="kl",  # the paper's bound, without the correction for skewed tails
                by="context",
                check_tails=False,
            )
    except InputError:
        return {}
    value, bound = (truth.loss(cost, clicks) for cost in (certificate.value, certificate.bound))
    return dict(zip(CERTIFICATE, (value, bound, certificate.effective_size), strict=True))


def _grid(
    path: Path, X: Features, truth: Truth, certify: Callable[..., dict], selections: Iterable[str]
) -> tuple[list[dict], dict[str, dict]]:
    """Return a row of losses and held-out scores for each fit, and the row that each selection criterion chooses.

    A chosen row also has a certificate and the score that chose it. It is empty if no fit has a score.
    """
    fits = read_fits(path)
    features = features_of(fits)
    policies = [make_policy(truth.actions, coef, features=features) for coef in fits["coef"]]
    rows = [
        {
            "hyperparameter": float(value),
            **dict(zip(SCORES, map(float, scores), strict=True)),
            **truth.losses(policy, X),
            "iterations": int(iterations),
            "converged": bool(converged),
            "tilt": float(fits["tilt"][0]),
        }
        for policy, value, iterations, converged, scores in zip(
            policies, *(fits[name] for name in ("grid", "iterations", "converged", "scores")), strict=True
        )
    ]
    indices = np.zeros(len(SCORES), dtype=int) if len(rows) == 1 else fits["chosen"]
    chosen = dict(zip(SCORES, map(int, indices), strict=True))
    for index in {chosen[selection] for selection in selections} - {-1}:
        rows[index] |= certify(policies[index], len(rows))
    best = {selection: rows[chosen[selection]] if chosen[selection] >= 0 else {} for selection in selections}
    return rows, {selection: {**row, "score": row.get(selection)} for selection, row in best.items()}
