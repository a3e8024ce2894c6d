"""Held-out scores of estimators, also as scikit-learn scorers, and checks that searches pass propensities on."""

from traceback import walk_stack
from types import FrameType, SimpleNamespace
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED

from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import MODELLED


class HeldoutScorer(BaseEstimator):  # type: ignore[misc]
    """Scorer for scikit-learn's searches: the held-out score of an estimator, or of a pipeline that ends in one.

    ``HeldoutScorer("dr_bound")(estimator, X, Y, propensity=p, cost=c)`` is ``estimator.score(…, by="dr_bound")``. In a
    search it needs ``sklearn.set_config(enable_metadata_routing=True)``.

    Parameters
    ----------
    by : str
        Name of the score: see the method ``score`` of the estimators, such as :meth:`drcrm.CIPS.score`.
    """

    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count", "eligible"), True) | {"estimator": UNUSED}

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

        Returns
        -------
        float
            Score in the units of the cost.
        """
        rows = {"propensity": propensity, "cost": cost, "count": count, "eligible": eligible}
        return estimator.score(X, Y, by=self.by, **{name: row for name, row in rows.items() if row is not None})

    __call__ = score


def heldout_score(
    policy: LinearPolicy, log: BanditLog, by: str, clip: float | None, model: SupportedModel | None
) -> float:
    """Return a score of a policy on a log with its features; ``clip`` is M."""
    if by in MODELLED and model is None:
        raise InputError(f"the score {by!r} needs a cost model: fit with estimate='dr', or with cost_model=")
    return HeldoutScores(log, clip, model if by in MODELLED else None)(policy)[by]


def require_rows(method: str, **rows: Any) -> None:
    """Raise InputError if values that a method, such as "CIPS.fit", needs for each row are missing."""
    for name, values in rows.items():
        if values is None:
            is_score = method.endswith(".score")
            hint = "; searches pass it on after sklearn.set_config(enable_metadata_routing=True)" if is_score else ""
            raise InputError(f"{method} needs {name}=, one value for each logged row{hint}")


def require_routing(estimator: BaseEstimator) -> None:
    """Raise an error if a scikit-learn search is about to score without propensities and costs.

    Call it in ``__sklearn_tags__``. The error is an InputError. In a pipeline it is a RuntimeError, because pipelines
    catch a ValueError there.
    """
    # scikit-learn has no hook for this check, so it looks for the search on the stack:
    # - An error in score is too late. The search prints it for each fit, continues with NaN and chooses arbitrarily.
    # - Requests for metadata are checked only if routing is enabled.
    # - Every search calls __sklearn_tags__ before it begins, also through a pipeline. No other public method has this
    #   property, but its arguments do not identify the caller.
    # If scikit-learn renames a variable, the check finds no search, and only the error in score remains.
    if get_config()["enable_metadata_routing"]:
        return
    search: Any = next(filter(None, map(_search_in, (frame for frame, _ in walk_stack(None)))), None)
    searched = getattr(search, "estimator", None)
    last = searched.steps[-1][1] if isinstance(searched, Pipeline) else searched
    if isinstance(last, type(estimator)) and isinstance(search.scoring, HeldoutScorer | None):
        error = InputError if last is searched else RuntimeError
        raise error(
            f"{type(estimator).__name__} is scored with the propensities and costs of held-out rows; searches pass "
            "them on only after sklearn.set_config(enable_metadata_routing=True)"
        )


def _search_in(frame: FrameType) -> Any:
    """Return the search whose method or function runs in a frame, an object with ``scoring``; None for others."""
    if not frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
        return None
    variables = frame.f_locals
    search = SimpleNamespace(**variables) if "scoring" in variables else variables.get("self")
    return search if hasattr(search, "scoring") else None
