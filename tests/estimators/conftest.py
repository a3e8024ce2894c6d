"""Logs of every kind of action with one interface, for tests that run over all estimators."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from fixtures.action_logs import Choices

from drcrm import BanditLog, ExponentialPolicy, SoftmaxPolicy

KINDS = ("labels", "single", "eligible", "lists")


@dataclass
class KindLog:
    """The arguments of a fit, and reference formulas for the probabilities of a policy.

    ``choices`` has the dense arrays of a choice among K actions, also for lists; it is None for label vectors.
    """

    kind: str
    X: object
    Y: np.ndarray
    rows: dict[str, np.ndarray]
    logging_policy: object
    choices: Choices | None = None

    @property
    def actions(self) -> dict[str, object]:
        """Return what a fit or a log needs to know of the actions."""
        return {} if self.kind in ("labels", "lists") else self.choices.known

    @property
    def eligible(self) -> dict[str, object]:
        """Return what predictions need to know of the actions."""
        return {"eligible": self.choices.eligible} if self.kind == "eligible" else {}

    @cached_property
    def log(self) -> BanditLog:
        return BanditLog(self.X, self.Y, **self.rows, **self.actions)

    def fit(self, estimator, form=np.asarray, **options):
        """Fit an estimator with the contexts as groups: all rows of a context are one unit."""
        X = self.choices.lists(form) if self.kind == "lists" else form(self.X)
        return estimator.fit(X, self.Y, **self.rows, groups=self.rows["context"], **self.actions, **options)

    def policy(self, coef: np.ndarray):
        if self.kind == "labels":
            return ExponentialPolicy(coef)
        return SoftmaxPolicy(coef.ravel() if self.kind == "lists" else coef)

    def marginals(self, coef: np.ndarray) -> np.ndarray:
        """Return the probabilities of each context's labels or actions, in the shape of ``predict_proba``."""
        if self.choices is None:
            return np.exp(-np.logaddexp(0, -self.X @ coef))
        dense = self.choices.probabilities(coef.reshape(self.choices.X.shape[1], -1))
        return dense[self.choices.eligible] if self.kind == "lists" else dense

    def probability(self, coef: np.ndarray) -> np.ndarray:
        """Return π(y_i|x_i) of the logged actions, (n,)."""
        if self.choices is None:
            scores = (self.X @ coef)[self.rows["context"]]
            return np.exp(-np.logaddexp(0, np.where(self.Y, -scores, scores)).sum(axis=1))
        return self.choices.of_rows(self.choices.probabilities(coef.reshape(self.choices.X.shape[1], -1)))

    def repeated(self) -> "KindLog":
        """Return the log with each row as often as it occurs, and counts of 1."""
        often = np.repeat(np.arange(len(self.Y)), self.rows["count"])
        rows = {name: values[often] for name, values in self.rows.items()} | {"count": np.ones(len(often), dtype=int)}
        return replace(self, Y=self.Y[often], rows=rows, choices=self.choices and self.choices.repeated())


@pytest.fixture(scope="session")
def make_kind(logged, random_policy):
    """Return a maker of logs whose costs depend on features and actions; some rows occur several times or never."""

    def make(kind: str, seed: int = 1, contexts: int = 60, passes: int = 4) -> KindLog:
        count = np.random.default_rng(seed).integers(0, 4, contexts * passes)
        if kind == "labels":
            log = logged(seed - 1, n=contexts, passes=passes)
            rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": count}
            return KindLog(kind, log.X, log.Y, rows, random_policy(seed - 1, scale=0.25))
        rng = np.random.default_rng([seed, 3])
        choices = Choices.drawn(seed, contexts=contexts, passes=passes, actions=4, restricted=kind != "single")
        base, B = rng.normal(size=(2, 4, 4))
        pi = choices.probabilities(base / 3)
        n = len(choices.A)
        choices.A = (rng.random(n)[:, None] < pi.cumsum(axis=1)[choices.context]).argmax(axis=1)
        choices.propensity, choices.count = choices.of_rows(pi), count
        choices.cost = choices.of_rows(choices.X @ B) + rng.normal(size=n) / 5
        choices.cost -= choices.cost.max()
        X, Y = (choices.lists(), choices.position) if kind == "lists" else (choices.X, choices.A)
        policy = SoftmaxPolicy(base.ravel() / 3 if kind == "lists" else base / 3)
        return KindLog(kind, X, Y, choices.rows, policy, choices)

    return make


@pytest.fixture(scope="session")
def kind_logs(make_kind) -> dict[str, KindLog]:
    return {kind: make_kind(kind) for kind in KINDS}


@pytest.fixture(params=[kind for kind in KINDS if kind != "single"])
def data(request, kind_logs) -> KindLog:
    """Return a log of each kind of action in turn; every action of one of K may be eligible."""
    return kind_logs[request.param]


@pytest.fixture(scope="session")
def log(logged) -> BanditLog:
    """Return a log of label vectors with four rows for each of 60 contexts."""
    return logged()
