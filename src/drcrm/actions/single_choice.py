"""Single choice: one of K actions, all of them or an eligible subset available in each context."""

import numpy as np

from drcrm.actions.base import require_columns
from drcrm.actions.one_of_many import OneOfMany
from drcrm.actions.row_maps import ChosenRows, OneChosenRow
from drcrm.arrays.validation import check_actions, reject_rows
from drcrm.errors import InputError


class SingleChoice(OneOfMany):
    """Actions a ∈ {0 … K − 1} with π(a|x) = e^{u_a} / Σ_b e^{u_b}, the sum over the eligible actions.

    Parameters
    ----------
    n_actions : int
        K.
    eligible : boolean array (m, K), optional
        The available actions of each context of a log; by default all.
    """

    def __init__(self, n_actions: int, eligible: np.ndarray | None = None):
        self.shape, self.eligible = (n_actions,), eligible

    @classmethod
    def from_effect_shape(cls, shape):
        return cls(require_columns(shape))

    def __str__(self) -> str:
        return f"one of {self.shape[0]} actions"

    @property
    def log_options(self):
        return {"n_actions": self.shape[0]}

    def bind(self, X, eligible=None):
        X, _ = super().bind(X)
        return X, SingleChoice(*self.shape, _check_eligible(eligible, (X.shape[0], *self.shape)))

    def _restrict(self, contexts):
        return SingleChoice(*self.shape, None if self.eligible is None else self.eligible[contexts])

    def check(self, Y, rows=None, owner="the policy"):
        Y = super().check(Y, rows)
        expected = f"one of {self.shape[0]} actions, numbered from 0, or a larger n_actions"
        reject_rows(self.shape[0] <= Y, Y, "Y", expected)
        return Y

    def check_available(self, Y, context):
        if self.eligible is not None:
            reject_rows(~self.eligible[context, Y], Y, "Y", "an action that is eligible for its context")

    def row_map(self, Y, context, n_contexts):
        return ChosenRows((context, Y), Y * n_contexts + context, context, (*self.shape, n_contexts), self.sum_actions)

    def one_row_map(self, Y):
        return OneChosenRow(Y, (*self.shape, len(Y)))

    def sum_actions(self, values):
        return values @ np.ones(values.shape[1])

    def max_score(self, scores):
        return scores.max(axis=1, initial=-np.inf, where=True if self.eligible is None else self.eligible)

    def count_choices(self):
        return np.array([self.shape[0]]) if self.eligible is None else self.eligible.sum(axis=1)

    def fill_unavailable(self, values, fill):
        if self.eligible is not None:
            np.copyto(values, fill, where=~self.eligible)

    def centre(self, coef):
        return coef - coef.mean(axis=1, keepdims=True)

    def most_probable(self, scores):
        return (scores if self.eligible is None else np.where(self.eligible, scores, -np.inf)).argmax(axis=1)

    def sample(self, mean, rng):
        cumulative = np.cumsum(mean, axis=1)
        threshold = np.minimum(rng.random(len(mean)), 1 - 1e-15) * cumulative[:, -1]
        return (cumulative > threshold[:, None]).argmax(axis=1)


def _check_eligible(eligible, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the mask of eligible actions, (m, K); None if all are eligible."""
    if eligible is None:
        return None
    eligible = check_actions(eligible, shape[0], "eligible", columns="action").astype(bool)
    if eligible.shape != shape:
        raise InputError(f"eligible has {eligible.shape[1]} columns, expected one for each of {shape[1]} actions")
    is_empty = ~eligible.any(axis=1)
    if is_empty.any():
        raise InputError(f"eligible has no action in row {int(np.argmax(is_empty))}, expected at least one")
    return None if eligible.all() else eligible
