"""Methods of a fitted estimator: its policy, predictions and held-out score, also as a scorer for searches."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from drcrm.arrays.validation import check_choice
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logging_policy import SUPPORT, SupportedModel, restrict_to_support
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.feature_maps import FeatureMap
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import MODELLED, SCORES


class HeldoutScorer(BaseEstimator):
    """Scorer for scikit-learn's searches: the held-out score of an estimator, or of a pipeline that ends in one.

    ``HeldoutScorer("dr_bound")(estimator, X, Y, propensity=p, cost=c)`` is ``estimator.score(…, by="dr_bound")``. In a
    search it needs ``sklearn.set_config(enable_metadata_routing=True)``.

    Parameters
    ----------
    by : str
        Name of the score: see the method ``score`` of the estimators, such as :meth:`drcrm.CIPS.score`.
    """

    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count", "eligible", "groups"), True) | {
        "estimator": UNUSED
    }

    def __init__(self, by: str = "clipped_snips"):
        self.by = by

    def score(
        self,
        estimator: Any,
        X: Any,
        Y: Any,
        propensity: Any = None,
        cost: Any = None,
        count: Any = None,
        eligible: Any = None,
        groups: Any = None,
    ) -> float:
        """Return the estimator's score: minus its estimated cost, so higher is better.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted estimator, or a pipeline that ends in one.
        X, Y, propensity, cost, count : array
            Held-out rows, in the form that the estimator's ``fit`` takes.
        eligible : bool array (m, K), optional
            Which of the K actions each context has.
        groups : array (n,), optional
            Ids of independent groups of rows.

        Returns
        -------
        float
            Score in the units of the cost.
        """
        rows = {"propensity": propensity, "cost": cost, "count": count, "eligible": eligible, "groups": groups}
        return estimator.score(X, Y, by=self.by, **{name: row for name, row in rows.items() if row is not None})

    __call__ = score


def require_rows(method: str, **rows: Any) -> None:
    """Raise InputError if values that a method, such as "CIPS.fit", needs for each row are missing."""
    for name, values in rows.items():
        if values is None:
            is_score = method.endswith(".score")
            hint = "; searches pass it on after sklearn.set_config(enable_metadata_routing=True)" if is_score else ""
            raise InputError(f"{method} needs {name}=, one value for each logged row{hint}")


class FittedPolicy(BaseEstimator):
    """Predictions and scores of an estimator by its fitted attributes."""

    support: float
    coef_: np.ndarray
    intercept_: np.ndarray
    features_: FeatureMap | None
    clip_: float | None
    cost_model_: SupportedModel | None
    _policy_class: type[LinearPolicy]

    @property
    def policy_(self) -> LinearPolicy:
        """The learned policy, an ExponentialPolicy or a SoftmaxPolicy."""
        check_is_fitted(self)
        policy = self._policy_class(self.coef_, self.intercept_, self.features_)
        policy.feature_names_in_ = getattr(self, "feature_names_in_", None)
        return policy

    def predict_proba(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the probability of each label or action.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            Contexts.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q), (m, K) or (N,)
            P(y_l = 1 | x) of each label, or P(a | x) of each action or of each of the N listed candidates.
        """
        return self._policy_for(X).marginals(X, eligible)

    def predict(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the most probable action of each context.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            Contexts.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q) or (m,)
            Labels of 0 and 1, the number of the action, or its place in the list.
        """
        return self._policy_for(X).greedy(X, eligible)

    def log_prob(self, X: Any, Y: Any, eligible: Any = None) -> np.ndarray:
        """Return the log-probabilities of given actions.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            Contexts.
        Y : array (m, q) or (m,)
            One action for each context, in the form that ``fit`` takes.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m,)
            Values of log π(y_i | x_i), at most 0.
        """
        return self._policy_for(X).log_prob(X, Y, eligible=eligible)

    def sample(self, X: Any, random_state: Any = None, eligible: Any = None) -> np.ndarray:
        """Draw one action for each context.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d), or ActionLists
            Contexts.
        random_state : int, Generator or None
            Seed. By default each call draws anew.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q) or (m,)
            Labels of 0 and 1, the number of the action, or its place in the list.
        """
        return self._policy_for(X).sample(X, random_state, eligible)

    def score(
        self,
        X: Any,
        Y: Any,
        propensity: Any = None,
        cost: Any = None,
        context: Any = None,
        count: Any = None,
        by: str = "clipped_snips",
        eligible: Any = None,
        groups: Any = None,
    ) -> float:
        """Return a score of the policy on held-out rows: minus its estimated cost, so higher is better.

        scikit-learn's searches use it if metadata routing is enabled.

        Parameters
        ----------
        X, Y, propensity, cost, context, count : array
            Held-out rows, in the form that ``fit`` takes.
        by : str
            Name of the estimate, which :class:`drcrm.selection.heldout_scores.HeldoutScores` explains: "ips",
            "clipped_ips", "snips", "clipped_snips", "dr", "dr_bound", "snips_bound", "ls_bound" or "improvement_bound".
            The default is clipped SNIPS, Σ w c / Σ w with w = min(M, π/p) and the M of the fit. "dr", "dr_bound" and
            "improvement_bound" use ``cost_model_``, with its support rule even after a fit with ``support=0``. If the
            fit has none, they cross-fit a cost model to the held-out rows, and compare with a clone of π0.
        eligible : bool array (m, K), optional
            Which of the K actions each context has.
        groups : array (n,), optional
            Ids of independent groups of rows, which the bounds count as units.

        Returns
        -------
        float
            Score in the units of the cost. It is NaN if the estimate is undefined, such as SNIPS if all weights are 0.
        """
        policy = self._policy_for(X)
        check_choice(SCORES, by, "by")
        require_rows(f"{type(self).__name__}.score", propensity=propensity, cost=cost)
        actions: dict[str, Any] = policy.actions.log_options | {"eligible": eligible}
        log = BanditLog(X, Y, propensity, cost, context, count, **actions)
        policy.actions.check(log.Y)
        log = Evaluation.of(policy, log, groups=groups).log
        model = None
        if by in MODELLED and self.cost_model_ is not None:
            model = self.cost_model_.with_support(self.support or SUPPORT)
        elif by in MODELLED:
            model = restrict_to_support(cross_fit(log), log, None, self.support or SUPPORT)
        return -HeldoutScores(log, self.clip_, model)(policy)[by]

    def _policy_for(self, X: Any) -> LinearPolicy:
        """Return the policy. Raise InputError or scikit-learn's errors if X does not have the columns of the fit."""
        policy = self.policy_
        policy.actions.bind(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return policy
