"""The base class of all estimators: fit, predict and score with scikit-learn's conventions."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from inspect import cleandoc, signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from drcrm.arrays.numerics import describe_offset_features, has_constant
from drcrm.arrays.validation import check_bool, check_column_names, check_positive, check_positive_integer
from drcrm.cost_models.regressor_model import is_regressor
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import count_threads, limit_threads, use_threads
from drcrm.data.folds import separate_units
from drcrm.errors import InputError, warn
from drcrm.estimates import find_estimate
from drcrm.estimators.fitted_policy import FittedPolicy, require_rows
from drcrm.logging_policy import LoggingPolicy
from drcrm.optimization.lbfgs import LbfgsSettings, describe_extreme_values
from drcrm.optimization.objective import WeightedLikelihoodRisk
from drcrm.policies.exponential import as_policy
from drcrm.progress import show_progress
from drcrm.risks import Risk
from drcrm.selection.algorithms import ESTIMATORS, Algorithm
from drcrm.selection.candidates import Learned
from drcrm.selection.fit_settings import FitOptions, FitSettings
from drcrm.selection.grid_search import learn_with_features
from drcrm.weights import as_weight

FLAT = (
    "the gradient there is 0, or within tol of 0. Either all weights are clipped or 0, or the worst case has only the "
    "rows with the largest cost: choose a larger clip or another start, or a less robust hyper-parameter"
)
PARAMETERS, ATTRIBUTES = "\n\nParameters\n----------", "\n\nAttributes\n----------"


@dataclass(eq=False, repr=False)
class CounterfactualEstimator(FitOptions, FittedPolicy):
    """Base class of estimators that learn a policy from a bandit log by minimising a counterfactual risk with L-BFGS.

    The policy is exponential for label vectors, and otherwise a softmax policy.

    Parameters
    ----------
    max_iter : int
        Largest number of L-BFGS iterations.
    tol : float
        Tolerance at which L-BFGS stops, for the decrease of the objective and for the largest entry of the gradient.
        Both are measured in units of the costs and features: see :class:`drcrm.optimization.lbfgs.LbfgsSettings`. On
        logs with 2¹⁶ contexts or more, the tolerance of the decrease is at least 2 · 10⁻⁴.
    n_jobs : int, optional
        Number of threads on logs with 2¹⁶ contexts or more. As in scikit-learn, None means 1 and −1 all cores. The
        result does not depend on it.
    verbose : bool
        Whether to print the duration of the fit and the rows per second on standard error. On a terminal, tqdm shows
        a bar if it is installed.

    Attributes
    ----------
    coef_ : array (d, q), (d, K) or (D,)
        Coefficients Θ: one column for each label or for each of K actions, or one entry for each feature of listed
        actions. With ``features``, Θ has rows for all of X'.
    features_ : FeatureMap or None
        Map from X to X', fitted to the contexts; None without ``features``.
    intercept_ : array (q,), (K,) or ()
        Intercepts; 0 without ``fit_intercept``.
    objective_ : float
        Minimised risk on the training rows. Under "dr" and "dm" its modelled costs include context effects.
    clip_ : float or None
        Limit M of the weights.
    tilt_ : float or None
        Strength κ of the tilt; None unless the start is "model".
    cost_model_ : SupportedModel or None
        Cost model with the logging policy and τ; None if the fit needed none. Its ``model`` is the regression: the
        argument ``cost_model``, or one fitted to the log. It has no context effects.
    n_iter_ : int
        Number of L-BFGS iterations.
    converged_ : bool
        Whether L-BFGS converged within ``max_iter`` iterations.
    n_features_in_ : int
        Number d of features of X.
    feature_names_in_ : array (d,)
        Column names of X, if X is a DataFrame whose names are all strings.
    """

    RISK: ClassVar[type[Risk] | None] = None  # set in a user's estimator, whose parameters are the risk's arguments

    # scikit-learn routes these arguments to fit, predict and score. It cannot route context, which has row numbers of
    # X, because searches split the rows of X. Pipelines need sample_weight in the request of score.
    __metadata_request__fit = dict.fromkeys(
        ("propensity", "cost", "count", "logging_policy", "cost_model", "n_actions", "eligible", "groups"), True
    )
    __metadata_request__predict = __metadata_request__predict_proba = {"eligible": True}  # noqa: RUF012
    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count", "by", "eligible", "groups"), True) | {
        "sample_weight": None
    }

    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-6
    n_jobs: int | None = None
    verbose: bool = False

    # Not scikit-learn's _parameter_constraints, so that all errors are InputErrors. Algorithm checks other parameters.
    _CHECKS: ClassVar[dict[str, Callable[[Any, str], Any]]] = {
        "n_jobs": count_threads,
        "verbose": check_bool,
        "fit_intercept": check_bool,
        "max_iter": check_positive_integer,
        "tol": check_positive,
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the risk of a class, and add inherited parameters and attributes to its docstring."""
        super().__init_subclass__(**options)
        cls.RISK = vars(cls).get("RISK", ESTIMATORS.get(cls.__name__, cls.RISK))
        _inherit_docstring(cls)

    def fit(
        self,
        X: Any,
        Y: Any,
        propensity: Any = None,
        cost: Any = None,
        context: Any = None,
        count: Any = None,
        logging_policy: Any = None,
        cost_model: Any = None,
        n_actions: int | None = None,
        eligible: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the policy to a log of contexts, actions, propensities and costs.

        The units of the features do not matter. The unit of the costs matters only for the parameters ``temperature``,
        ``smoothing``, ``sharpness`` and a numeric ``tilt``.

        Adding a constant to all costs changes only "ips" and ``LogSmoothing``. Under "ips", costs should be below 0,
        like negated rewards. If no cost is below 0, a policy that avoids every logged action has the smallest risk, and
        the fit warns.

        There are m contexts with d features, n logged rows, and q labels or K actions. Lists of actions have N
        candidates with D features.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            Contexts. Without ``fit_intercept``, X needs a constant column, except for lists of actions.
        Y : array (n, q) or (n,)
            Logged actions: label vectors, or one number for each row. See :class:`drcrm.BanditLog` for all data.
        propensity, cost : array (n,)
            Propensity and cost of each row.
        context, count : int array (n,), optional
            Row of X that each logged row belongs to, and how often each row occurred.
        logging_policy : ExponentialPolicy, SoftmaxPolicy or a fitted estimator, optional
            Logging policy π0, which the start "logging" needs. In all other cases a policy cloned from the log can
            replace it, and does by default.
        cost_model : cost model, regressor or function, optional
            Cost model for "dr", "dm" and the start "model". By default a ``CostModel`` is fitted to the log. You can
            pass:

            - a fitted ``CostModel``;
            - a regressor of scikit-learn, such as ``RandomForestRegressor()``. It is fitted to the training rows, and
              cannot model label vectors: see :class:`drcrm.RegressorModel`;
            - a function of X that returns the modelled costs of all actions, (m, K) or (N,). For label vectors it gives
              the costs that labels add and, in the last column, the cost of the vector without labels, (m, q + 1).
        n_actions : int, optional
            Number K of actions.
        eligible : bool array (m, K), optional
            Which of the K actions each context has.
        groups : array (n,), optional
            Ids of independent groups of rows, such as users. A group is held out as a whole, and the tests of
            ``DoublyRobustDRO`` use the errors of groups. The folds of cost models and learned scores keep groups
            together. By default, rows are independent. If rows share contexts, pass ``context`` as the groups, so that
            the rows of a context are held out together.

        Returns
        -------
        object
            The fitted estimator itself.

        Raises
        ------
        InputError
            If an argument, a parameter or a row is invalid. It is a ValueError, and its message says what was expected.

        Warns
        -----
        ConvergenceWarning
            If L-BFGS stopped at ``max_iter``, or the fit ended where it began.
        UserWarning
            If X has no constant column and the policy no intercept, if the mean of a feature is far from 0 compared
            with its standard deviation, or if no cost is below 0 under "ips".
        """
        algorithm = self._algorithm()
        require_rows(f"{type(self).__name__}.fit", Y=Y, propensity=propensity, cost=cost)
        policy = None if logging_policy is None else as_policy(logging_policy, "logging_policy")
        whole = BanditLog(X, Y, propensity, cost, context, count, n_actions, eligible).with_groups(groups)
        whole = separate_units(whole)[0] if algorithm.uses_model else whole
        for fitted, owner in ((policy, "logging_policy"), (cost_model, "cost_model")):
            check_column_names(None if is_regressor(fitted) else fitted, whole.feature_names_in_, owner)
        whole.actions.check_not_one_hot(whole.Y)
        if self.fit_intercept and not whole.actions.has_intercept:
            raise InputError(f"fit_intercept must be False for {whole.actions}: an intercept would change nothing")
        is_heldout = self._select_heldout(whole)
        log, names = whole.recount(whole.count * ~is_heldout).merge_duplicates()[0], [*getattr(X, "columns", ())]
        heldout = whole.recount(whole.count * is_heldout).merge_duplicates()[0] if is_heldout.any() else None
        passes: Any = show_progress(True, self.n_jobs) if self.verbose else use_threads(self.n_jobs)
        with passes as progress, limit_threads(1, "blas"):  # several BLAS threads would slow small products down
            if progress is not None:
                progress(type(self).__name__)
            logging = None if policy is None else LoggingPolicy.of(policy, log)
            learned = self._learn(log, algorithm, heldout, (logging, cost_model, names or None))
        validate_data(self, X, skip_check_array=True)
        self._set_fitted(learned, is_heldout)
        self._warn_of_data(log, is_likelihood=issubclass(algorithm.risk_class, WeightedLikelihoodRisk))
        self._warn_of_result(log, heldout, learned)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.required = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = tags.target_tags.two_d_labels = True
        return tags

    def _algorithm(self) -> Algorithm:
        """Return the algorithm that the parameters describe; InputError for an invalid parameter."""
        if self.RISK is None:
            expected = f"one of {', '.join(ESTIMATORS)}, or a subclass of them, or a class with the attribute RISK"
            raise InputError(f"{type(self).__name__} has no risk, expected {expected}")
        for parameter, check in self._CHECKS.items():
            check(getattr(self, parameter), parameter)
        as_weight(self.weight)
        parameters = self.get_params(deep=False)
        shared = {part.name: parameters[part.name] for part in fields(FitSettings) if part.name in parameters}
        return Algorithm(
            next((name for name, risk in ESTIMATORS.items() if risk is self.RISK), self.RISK),
            options={name: getattr(self, name) for name in signature(self.RISK).parameters if hasattr(self, name)},
            settings=FitSettings(LbfgsSettings(self.max_iter, self.tol), **shared),
        )

    def _select_heldout(self, log: BanditLog) -> np.ndarray:
        """Return a mask, (n,), of rows that are held out to choose among candidates."""
        return np.zeros(len(log.Y), dtype=bool)

    def _learn(self, log: BanditLog, algorithm: Algorithm, heldout: BanditLog | None, known: Sequence[Any]) -> Learned:
        """Return the fit. ``known`` are π0, the cost model and the names of the features."""
        return learn_with_features(log, algorithm, heldout, *known)

    def _set_fitted(self, learned: Learned, is_heldout: np.ndarray) -> None:
        """Set the fitted attributes."""
        chosen = learned.candidates[learned.selected]
        fit, policy = chosen if chosen.step == 1 else learned.candidates[0], chosen.policy
        self.coef_, self.intercept_, self.features_ = policy.coef, policy.intercept, policy.features
        self._policy_class, self.clip_, self.cost_model_ = type(policy), learned.clip, learned.cost_model
        self.tilt_, self.objective_ = learned.tilt, float(chosen.objective)
        self.n_iter_, self.converged_ = fit.iterations, fit.converged

    def _warn_of_data(self, log: BanditLog, is_likelihood: bool) -> None:
        """Warn of data on which a fit can go wrong silently.

        - There is no intercept: ``fit_intercept`` is False, and no columns of X add up to a constant.
        - A feature, such as a year, has a mean far from 0 compared with its standard deviation.
        - The estimate is "ips", and no cost is below 0.
        """
        if log.actions.has_intercept and not self.fit_intercept and not has_constant(log.X):
            warn(
                "X has no constant column and the policy has no intercept: set fit_intercept=True, or append a constant"
            )
        if columns := describe_offset_features(log.X, getattr(self, "feature_names_in_", None)):
            warn(f"{columns}: standardise all columns of X except a constant")
        kind = find_estimate(self.estimate)
        is_safe = is_likelihood or kind.is_translation_equivariant or not kind.uses_weights
        if not is_safe and log.cost.min() >= 0 < log.cost.max():
            warn(
                f"no cost is below 0, the smallest is {log.cost.min():.6g}: with 'ips' a policy that avoids all logged "
                "actions has the smallest risk; subtract the largest cost, or use estimate='snips' or 'dr'"
            )

    def _warn_of_result(self, log: BanditLog, heldout: BanditLog | None, learned: Learned) -> None:
        """Warn with a ConvergenceWarning if L-BFGS stopped at ``max_iter``, or the fit ended at its start."""
        name = type(self).__name__
        if not self.converged_:
            hint = "" if self.n_iter_ else f" ({describe_extreme_values(log)})"
            warn(f"{name} did not converge in {self.n_iter_} iterations; see converged_{hint}", ConvergenceWarning)
        elif not self.n_iter_ and learned.objectives:
            reason = "all costs are equal" if log.cost.min() == log.cost.max() else FLAT
            warn(f"{name} ends where it began: {reason}", ConvergenceWarning)


def _inherit_docstring(cls: type) -> None:
    """Add the parameters and attributes of the next class in the order of inheritance to a class docstring."""
    if cls.__doc__:
        summary, parameters, attributes = _split_docstring(cls.__doc__)
        _, inherited, inherited_attributes = _split_docstring(cls.__mro__[1].__doc__ or "")
        has_only_keywords = "_" in cls.__annotations__  # the class declares KW_ONLY
        ordered = inherited + parameters if has_only_keywords else parameters + inherited
        cls.__doc__ = f"{summary}{PARAMETERS}{ordered}{ATTRIBUTES}{inherited_attributes}{attributes}\n"


def _split_docstring(docstring: str) -> tuple[str, str, str]:
    """Return the text before the parameters, the parameters, and the attributes of a class docstring."""
    text, _, attributes = cleandoc(docstring).partition(ATTRIBUTES)
    summary, _, parameters = text.partition(PARAMETERS)
    return summary, parameters, attributes


_inherit_docstring(CounterfactualEstimator)  # of its subclasses, __init_subclass__ does so
