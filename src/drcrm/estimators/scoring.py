"""The held-out scores as scikit-learn scorers."""

from traceback import walk_stack
from types import SimpleNamespace

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED

from drcrm.errors import InputError


class HeldoutScorer(BaseEstimator):
    """Scores an estimator, or a pipeline that ends in one, by a held-out score: ``scoring`` of scikit-learn's searches.

    ``HeldoutScorer("dr_bound")(estimator, X, Y, propensity=p, cost=c)`` is ``estimator.score(…, by="dr_bound")``. In a
    search it needs ``sklearn.set_config(enable_metadata_routing=True)``.

    Parameters
    ----------
    by : str
        One of :data:`drcrm.selection.heldout_scores.SCORES`.
    """

    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count", "eligible"), True) | {"estimator": UNUSED}

    def __init__(self, by: str = "clipped_snips"):
        self.by = by

    def score(self, estimator, X, Y, propensity=None, cost=None, count=None, eligible=None) -> float:
        """Return minus the held-out score, the higher the better: arguments as those of the estimator's ``score``."""
        rows = {"propensity": propensity, "cost": cost, "count": count, "eligible": eligible}
        return estimator.score(X, Y, by=self.by, **{name: each for name, each in rows.items() if each is not None})

    __call__ = score


def require_routing(estimator: BaseEstimator) -> None:
    """Raise an error in a search of scikit-learn's whose scores would lack the propensities and costs.

    It is an InputError, or for a pipeline, which swallows a ValueError, a RuntimeError. Searches ask for an estimator's
    tags before they begin. Raised by a score the error would be swallowed, printed once for each fit, and a NaN put in
    its place.
    """
    if get_config()["enable_metadata_routing"]:
        return
    for frame, _ in walk_stack(None):
        variables = frame.f_locals
        searches = frame.f_globals.get("__name__", "").startswith("sklearn.model_selection.")
        if searches and ("scoring" in variables or hasattr(variables.get("self"), "scoring")):
            search = SimpleNamespace(**variables) if "scoring" in variables else variables["self"]
            searched = getattr(search, "estimator", None)
            last = searched.steps[-1][1] if isinstance(searched, Pipeline) else searched
            if isinstance(last, type(estimator)) and (
                search.scoring is None or isinstance(search.scoring, HeldoutScorer)
            ):
                kind = InputError if last is searched else RuntimeError
                raise kind(
                    f"{type(estimator).__name__} is scored on rows held out, by their propensities and costs, which "
                    "searches hand on after sklearn.set_config(enable_metadata_routing=True) alone"
                )
            return
