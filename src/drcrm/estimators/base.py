"""The algorithms as scikit-learn estimators."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from inspect import cleandoc
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from drcrm.arrays.validation import check_bool, check_choice, check_fraction, check_positive, check_positive_integer
from drcrm.cost_models.context_effects import as_context_effects
from drcrm.cost_models.padded_model import PaddedModel
from drcrm.cost_models.support import SUPPORT
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import count_threads, use_threads
from drcrm.data.scaling import describe_extreme_values, describe_offset_features, has_constant
from drcrm.errors import InputError, warn
from drcrm.estimators.scoring import require_routing
from drcrm.optimization.lbfgs import explain_flat_start
from drcrm.policies.exponential import LinearPolicy, as_policy, make_policy
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.progress import show_progress
from drcrm.selection.algorithms import ESTIMATORS, Algorithm
from drcrm.selection.grid_search import Learned, learn
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import MODELLED, SCORES
from drcrm.weights import CLIPPED, Weight, as_weight


@dataclass(eq=False, repr=False)
class CounterfactualEstimator(BaseEstimator):
    """Learns an exponential or a softmax policy from a bandit log by minimising a counterfactual risk with L-BFGS.

    Parameters
    ----------
    estimate : "ips", "snips", "dr" or "dm"
        How the risk is estimated from the log: see :mod:`drcrm.estimates.base`.
    weight : "clipped", or a weight
        min(M, π/p), or one of :mod:`drcrm.weights`, such as ``Implicit(0.1)``.
    start : "zero", "logging", "model" or "imitation"
        Where the fit starts: at Θ = 0, the logging policy, that policy tilted by the cost model, or the policy of
        largest likelihood of the logged actions, which is tilted too where no logging policy is given.
    tilt : float ≥ 0 or "auto"
        κ: under the start "model" Θ is that of π ∝ π0 e^{−κ ĉ}; "auto" takes κ at which the effective sample size is a
        third of the rows.
    support : float in [0, 1]
        τ: where π0 takes an action with less than τ of the uniform policy's probability, or gives a label a value with
        less than τ/2, the cost model is not believed, and the action is dear: see :mod:`drcrm.cost_models.support`. 0
        believes
        it everywhere.
    context_effects : bool or "auto"
        Whether, under "dr" and "dm", the cost model of the contexts fitted to has what their own rows say beyond their
        features: see :mod:`drcrm.cost_models.context_effects`. "auto" has them with label vectors, where they were
        measured
        to pay.
    clip : "auto", float ≥ 1, or None
        M, at which weights are clipped where they are "clipped": by default the 90th over the 10th percentile of the
        logged propensities and at least e; None does not clip.
    fit_intercept : bool
        Whether scores of labels or actions have an intercept: by default not, as X is taken to have a constant column.
    features : transformer or dict, optional
        φ, a transformer of scikit-learn's, or {"nystroem": 300} or {"random_trees": 30}: the policy, the cost model and
        the start are then of X' = [X, s φ(X)], s such that both parts have the same mean squared norm.
    max_iter : int
        L-BFGS iterations at most.
    tol : float
        Decrease of the objective, relative or over the deviation of the logged costs, and largest entry of its gradient
        in these units and those of the features, at which L-BFGS stops. On a log of 2¹⁶ contexts or more the decrease
        is at least 10⁻⁴: see :func:`drcrm.optimization.lbfgs.minimize_objectives`.
    n_jobs : int, optional
        Threads by which a log of 2¹⁶ contexts or more is passed over, as scikit-learn has it: None is 1, −1 all cores.
        The result does not depend on it.
    verbose : bool
        Whether to print on standard error how long the fit took and how many rows per second it passed over. If that is
        a terminal and tqdm is installed, a bar shows the progress.

    Attributes
    ----------
    coef_ : array (d, q), (d, K) or (D,)
        Θ: a column for each label, for each of K actions, or one entry for each feature of listed actions; with
        ``features`` it has rows for all of X'.
    features_ : FeatureMap or None
        X ↦ X', fitted to the contexts.
    intercept_ : array (q,), (K,) or ()
        0 without ``fit_intercept``.
    objective_ : float
        The minimised risk: under "dr" and "dm" with context effects, if there are any.
    clip_ : float or None
        The M that was used.
    tilt_ : float or None
        The κ that was used, under the start "model".
    cost_model_ : SupportedModel or None
        The cost model that was given, or that was fitted for the estimate or the start, which is its ``model``, with π0
        and τ: a cost model that is believed where π0 has support.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
        d.
    feature_names_in_ : array (d,)
        The names of X's columns, where X is a DataFrame whose names are all strings.
    """

    # What scikit-learn hands on where its metadata routing is enabled; not context, as searches split the rows of X;
    # sample_weight stands there since pipelines know of no score without.
    __metadata_request__fit = dict.fromkeys(
        ("propensity", "cost", "count", "logging_policy", "cost_model", "n_actions", "eligible"), True
    )
    __metadata_request__predict = __metadata_request__predict_proba = {"eligible": True}  # noqa: RUF012
    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count", "by", "eligible"), True) | {
        "sample_weight": None
    }

    _: KW_ONLY
    estimate: str = "ips"
    weight: str | Weight = "clipped"
    start: str = "zero"
    tilt: float | str = 1.0
    support: float = SUPPORT
    context_effects: bool | str = "auto"
    clip: float | str | None = "auto"
    fit_intercept: bool = False
    features: object = None
    max_iter: int = 1000
    tol: float = 1e-6
    n_jobs: int | None = None
    verbose: bool = False

    _is_likelihood: ClassVar = False
    _CHECKS: ClassVar = {
        "n_jobs": count_threads,
        "verbose": check_bool,
        "support": check_fraction,
        "context_effects": as_context_effects,
        "fit_intercept": check_bool,
        "max_iter": check_positive_integer,
        "tol": check_positive,
    }

    def __init_subclass__(cls, **options):
        """Add the parameters and attributes that a class inherits to its docstring."""
        super().__init_subclass__(**options)
        shared = cleandoc(super(cls, cls).__doc__ or "").partition("----------\n")[2]
        if cls.__doc__:
            own, _, attributes = cleandoc(cls.__doc__).partition("\n\nAttributes\n----------")
            heading = "" if "\nParameters\n" in own else "\n\nParameters\n----------"
            cls.__doc__ = f"{own}{heading}\n{shared}{attributes}"

    def fit(
        self,
        X,
        Y,
        propensity=None,
        cost=None,
        context=None,
        count=None,
        logging_policy=None,
        cost_model=None,
        n_actions=None,
        eligible=None,
    ):
        """Fit to the quadruplets (x, y, p, c); features and costs are taken as given.

        Costs are not translated: where none is below 0, the estimate "ips" is smallest for a policy that flees every
        logged action, if Θ can express one. The units of the costs and of each feature do not matter, nor under "snips"
        and "dr" where the costs' zero is.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            With a constant column, unless ``fit_intercept`` is set; lists of actions need none.
        Y, propensity, cost, context, count, n_actions, eligible
            As those of :class:`drcrm.BanditLog`: Y an array (n, q) of labels, or a vector (n,) of actions.
        logging_policy : ExponentialPolicy, SoftmaxPolicy or a fitted estimator, optional
            π0, for the starts "logging" and "model", and for where a cost model is believed; for the last two an
            imitation of the log does where it is not known.
        cost_model : optional
            For the estimates "dr" and "dm" and the start "model": a ``CostModel``, or for the estimates alone any
            object with ``predict`` and ``expectation``, of label vectors one whose cost is additive over labels; by
            default a CostModel fitted to the log.

        Raises
        ------
        InputError
            A ValueError that says which argument is wrong, in which row, and what was expected.

        Warns
        -----
        ConvergenceWarning
            If L-BFGS stopped at ``max_iter``, or the fit ends where it began.
        UserWarning
            If X has no constant column, nor ones that add up to one, and ``fit_intercept`` is not set; if a feature
            lies far from 0 beside its deviation, as years do; or if no cost is below 0 under "ips".
        """
        algorithm = self._algorithm()
        self._require("fit", Y=Y, propensity=propensity, cost=cost)
        algorithm.criteria()  # what is wrong with the parameters is said before the log is read
        logging_policy = None if logging_policy is None else as_policy(logging_policy, "logging_policy")
        given = BanditLog(X, Y, propensity, cost, context, count, n_actions, eligible)
        seen = given.recount(given.count)
        seen.actions.check_not_one_hot(seen.Y)
        if self.fit_intercept and not seen.actions.has_intercept:
            raise InputError(f"fit_intercept is True, expected False for {seen.actions}: it would change nothing")
        held = self._held_out(given)
        parts = [given.recount(given.count * part) for part in (~held, held)] if held.any() else [seen]
        log, heldout = ([part.merge_duplicates()[0] for part in parts] + [None])[:2]
        features = None
        if self.features is not None:
            features = FeatureMap(as_transformer(self.features), log.X)
            log, heldout = (part and part.replace(X=features(part.X)) for part in (log, heldout))
            logging_policy = features.pad_policy(logging_policy)
            cost_model = None if cost_model is None else PaddedModel(cost_model, features)
        limits = {"clip": self.clip, "max_iter": self.max_iter, "tol": self.tol}
        with self._working(), threadpool_limits(1, "blas"):  # with more threads small products take many times as long
            learned = learn(
                log, algorithm, heldout, logging_policy, cost_model, intercept=bool(self.fit_intercept), **limits
            )
        validate_data(self, X, skip_check_array=True)
        self._keep(log, learned, features, held)
        self._warn_of_what_it_saw(seen)
        self._warn_of_how_it_ended(log, heldout, learned)
        return self

    def score(
        self, X, Y, propensity=None, cost=None, context=None, count=None, by="clipped_snips", eligible=None
    ) -> float:
        """Return minus a held-out score, what the policy promises to cost on rows it has not learned from.

        The higher, the better: scikit-learn's searches choose by it where its metadata routing is enabled.

        Parameters
        ----------
        X, Y, propensity, cost, context, count, eligible
            As those of ``fit``, of other rows.
        by : str
            One of :data:`drcrm.selection.heldout_scores.SCORES`, clipped with the M of the fit: by default clipped
            SNIPS,
            Σ w c / Σ w with w = min(M, π/p). "dr" and "dr_bound" take ``cost_model_``, always with support.

        Returns
        -------
        float, in the units of the cost; NaN where no row has a weight.
        """
        self._check_columns(X)
        check_choice(SCORES, by, "by")
        self._require("score", propensity=propensity, cost=cost)
        log = BanditLog(X, Y, propensity, cost, context, count, **self._actions.log_options, eligible=eligible)
        self._actions.check(log.Y)
        modelled = by in MODELLED
        if modelled and self.cost_model_ is None:
            raise InputError(f"the score {by!r} needs a cost model: fit with estimate='dr', or with cost_model=")
        log = log.replace(X=self.policy_.map_features(log.X))
        scored = replace(self.cost_model_, support=self.support or SUPPORT, features=None) if modelled else None
        effects = scored.action_effects(log.X, log.actions) if modelled else None
        policy = (scored.logging_policy, scored.is_cloned) if modelled else ()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scores = HeldoutScores(log, self.clip_, effects, True, *policy)(self.policy_.coef_with_intercept)
        return -scores[by]

    @property
    def policy_(self) -> LinearPolicy:
        """The learned policy."""
        check_is_fitted(self)
        return make_policy(self._actions, self.coef_, self.intercept_, self.features_)

    def predict_proba(self, X, eligible=None) -> np.ndarray:
        """Return P(y_l = 1 | x) of each label, shape (n, q), or P(a | x) of each action, shape (n, K) or (N,)."""
        self._check_columns(X)
        return self.policy_.marginals(X, eligible)

    def predict(self, X, eligible=None) -> np.ndarray:
        """Return the greedy actions, shape (n, q) or (n,)."""
        self._check_columns(X)
        return self.policy_.greedy(X, eligible)

    def log_prob(self, X, Y, eligible=None) -> np.ndarray:
        """Return log π(y_i | x_i), shape (n,)."""
        self._check_columns(X)
        return self.policy_.log_prob(X, Y, eligible=eligible)

    def sample(self, X, random_state=None, eligible=None) -> np.ndarray:
        """Draw one action for each context, shape (n, q) or (n,)."""
        self._check_columns(X)
        return self.policy_.sample(X, random_state, eligible)

    def __sklearn_tags__(self):
        require_routing(self)
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = tags.target_tags.two_d_labels = True
        return tags

    def _algorithm(self) -> Algorithm:
        """What is asked for, its parameters checked; InputError for a class that is, and comes from, no estimator."""
        name = next((each.__name__ for each in type(self).__mro__ if each.__name__ in ESTIMATORS), None)
        if name is None:
            expected = f"one of {', '.join(ESTIMATORS)}, or a subclass"
            raise InputError(f"{type(self).__name__} has no risk of its own, expected {expected}")
        for parameter, check in self._CHECKS.items():
            check(getattr(self, parameter), parameter)
        options = {
            each: getattr(self, each)
            for each in (*ESTIMATORS[name].parameters, "estimate", "start", "tilt", "support", "context_effects")
        }
        weight = as_weight(self.weight)
        return Algorithm(name, options={**options, "weight": CLIPPED if weight is None else weight})

    def _require(self, method: str, **rows) -> None:
        """Raise InputError for what a method needs of each row, and was not given."""
        for name, values in rows.items():
            if values is None:
                hint = "; searches hand it on after sklearn.set_config(enable_metadata_routing=True)"
                hint = hint if method == "score" else ""
                raise InputError(f"{type(self).__name__}.{method} needs {name}=, one for each logged row{hint}")

    def _check_columns(self, X) -> None:
        """Raise InputError for what no fit takes as X, and scikit-learn's errors for columns other than a fit's."""
        check_is_fitted(self)
        self._actions.bind(X)
        validate_data(self, X, skip_check_array=True, reset=False)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Within, passes are made as ``n_jobs`` and ``verbose`` say."""
        if not self.verbose:
            with use_threads(self.n_jobs):
                yield
            return
        with show_progress(True, self.n_jobs) as tell:
            tell(type(self).__name__)
            yield

    def _held_out(self, log: BanditLog) -> np.ndarray:
        """Which rows are held out, for a choice among candidates, a mask (n,)."""
        return np.zeros(len(log.Y), dtype=bool)

    def _chosen(self, learned: Learned) -> int:
        """Which candidate is chosen."""
        return 0

    def _keep(self, log: BanditLog, learned: Learned, features: FeatureMap | None, held: np.ndarray) -> None:
        """Set the fitted attributes."""
        self.features_ = features
        fits, self._actions = learned.fits, log.actions.from_effect_shape(log.actions.effect_space.shape)
        chosen = self._chosen(learned)
        fitted = chosen if fits.step[chosen] == 1 else 0
        self.coef_, self.intercept_ = fits.coef[chosen], np.zeros(fits.coef.shape[2:])
        if self.fit_intercept:
            self.coef_, self.intercept_ = self.coef_[:-1], self.coef_[-1]
        self.clip_, model = learned.clip, learned.cost_model
        self.cost_model_ = model and replace(model, features=features)
        self.tilt_ = None if np.isnan(fits.tilt[0]) else float(fits.tilt[0])
        self.objective_ = float(fits.objective[chosen])
        self.n_iter_ = int(fits.iterations[fitted])
        self.converged_ = bool(fits.converged[fitted])

    def _warn_of_how_it_ended(self, log: BanditLog, heldout: BanditLog | None, learned: Learned) -> None:
        """Warn of a fit that did not converge, or did not move."""
        name = type(self).__name__
        if not self.converged_:
            hint = "" if self.n_iter_ else f" ({describe_extreme_values(log)})"
            warn(f"{name} did not converge in {self.n_iter_} iterations; see converged_{hint}", ConvergenceWarning)
        elif not self.n_iter_:
            reason = explain_flat_start(learned.objectives[0], learned.start)
            warn(f"{name} ends where it began: {reason}", ConvergenceWarning)

    def _warn_of_what_it_saw(self, log: BanditLog) -> None:
        """Warn of what lets a fit go wrong without a sign of it."""
        if log.actions.has_intercept and not self.fit_intercept and not has_constant(log.X):
            warn("X has no constant column, and the policy no intercept: set fit_intercept=True, or append a constant")
        if columns := describe_offset_features(log.X, getattr(self, "feature_names_in_", None)):
            warn(f"{columns}: standardise X, all but a constant")
        if self.estimate == "ips" and not self._is_likelihood and log.cost.min() >= 0 < log.cost.max():
            warn(
                f"no cost is below 0, the least is {log.cost.min():.6g}: under 'ips' the policy that flees all logged "
                "actions has the least risk; subtract the largest cost from all, or take estimate='snips' or 'dr'"
            )
