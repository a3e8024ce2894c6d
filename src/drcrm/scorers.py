"""The held-out scores as scikit-learn scorers."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED


class HeldoutScorer(BaseEstimator):
    """Scores an estimator, or a pipeline that ends in one, by a held-out score: ``scoring`` of scikit-learn's searches.

    ``HeldoutScorer("dr_bound")(estimator, X, Y, propensity=p, cost=c)`` is ``estimator.score(…, by="dr_bound")``. In a
    search it needs ``sklearn.set_config(enable_metadata_routing=True)``.

    Parameters
    ----------
    by : str
        One of :data:`drcrm.core.scores.SCORES`.
    """

    __metadata_request__score = dict.fromkeys(("propensity", "cost", "count"), True) | {"estimator": UNUSED}

    def __init__(self, by: str = "clipped_snips"):
        self.by = by

    def score(self, estimator, X, Y, propensity=None, cost=None, count=None) -> float:
        """Return minus the held-out score, the higher the better: arguments as those of the estimator's ``score``."""
        rows = {"propensity": propensity, "cost": cost, "count": count}
        return estimator.score(X, Y, by=self.by, **{name: each for name, each in rows.items() if each is not None})

    __call__ = score
