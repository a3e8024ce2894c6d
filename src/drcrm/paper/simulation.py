"""Simulation of bandit feedback: true labels or classes give costs and exact losses, and a policy logs its actions.

``LabelTruth`` and ``ClassTruth`` also fit the logging policy π0, and the skyline, which sees the truth of all training
contexts. The rest of the simulation does not depend on the kind of actions.
"""

import math
import zlib
from collections.abc import Sequence
from typing import Self

import numpy as np
from scipy.sparse import issparse

from drcrm.actions.label_vectors import LabelVectors
from drcrm.actions.one_of_many import SingleChoice
from drcrm.arrays.validation import Features, check_actions, check_integers, reject_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy

CERTAIN = (1.0, 0.0)  # probabilities of a click on the right action and on a wrong action
Rates = Sequence[float]


def hamming_cost(Y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the translated cost of actions Y, their Hamming distance to the true labels minus q, in [−q, 0].

    Both arrays have shape (n, q). Costs are translated because a policy that avoids all logged actions would minimise
    clipped IPS of non-negative costs.
    """
    return (labels != Y).sum(axis=1, dtype=float) - Y.shape[1]


def hamming_losses(
    probability: np.ndarray, greedy: np.ndarray, labels: np.ndarray, tossed: np.ndarray | None = None
) -> dict[str, float]:
    """Return ``expected_loss`` and ``greedy_loss``, mean Hamming losses in labels.

    The first is the mean over contexts of Σ_l P(y_l ≠ y*_l), and the second that of Σ_l 1[y_l ≠ y*_l] for the most
    probable action y. A label in the mask ``tossed`` counts ½ in both.

    Parameters
    ----------
    probability : array (n, q)
        Probabilities P(y_l = 1).
    greedy : array (n, q)
        The most probable actions.
    labels : array (n, q)
        The true labels y*.
    tossed : boolean array (q,), optional
    """
    judged = slice(None) if tossed is None else ~tossed
    coins = 0.0 if tossed is None else tossed.sum() / 2
    wrong = {"expected_loss": abs(labels - probability), "greedy_loss": labels != greedy}
    return {name: float(entries[:, judged].sum(axis=1).mean() + coins) for name, entries in wrong.items()}


def error_rates(probability: np.ndarray, greedy: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Return ``expected_loss`` and ``greedy_loss`` of one action of K: the means of 1 − π(a*|x) and of 1[a ≠ a*].

    Parameters
    ----------
    probability : array (n, K)
        Probabilities π(·|x) of all actions.
    greedy : integer array (n,)
        The most probable actions a.
    classes : integer array (n,)
        The right actions a*.
    """
    right = probability[np.arange(len(classes)), classes]
    return {"expected_loss": float((1 - right).mean()), "greedy_loss": float((greedy != classes).mean())}


class LabelTruth:
    """True labels y* ∈ {0,1}^q of each context.

    The loss is the number of wrong labels (Hamming loss), and a cost is the loss minus q. Policies are conditional
    random fields (CRFs).

    Parameters
    ----------
    labels : array (n, q)
    """

    def __init__(self, labels):
        self.labels = check_actions(labels, name="labels")
        self.actions = LabelVectors(self.labels.shape[1])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows) -> Self:
        """Return the truth of some contexts."""
        return LabelTruth(self.labels[rows])

    def absent(self) -> np.ndarray:
        """Return the mask of labels without a positive context, (q,)."""
        return ~self.labels.any(axis=0)

    def fit_policy(self, X: Features, C: float) -> ExponentialPolicy:
        """Fit a CRF to the contexts."""
        from drcrm.paper.reference_policies import fit_crf

        return fit_crf(X, self.labels, C)

    def skyline(
        self, X: Features, X_heldout: Features, heldout: Self, grid: Sequence[float]
    ) -> tuple[ExponentialPolicy, float]:
        """Return the CRF with the smallest greedy loss on the held-out contexts, and its C from the grid."""
        from drcrm.paper.reference_policies import fit_skyline

        return fit_skyline(X, self.labels, X_heldout, heldout.labels, grid)

    def strata(self, X: Features) -> np.ndarray:
        """Return the quarter of each context, 0 to 3, by the feature with the largest variance."""
        from sklearn.preprocessing import StandardScaler

        variance = StandardScaler(with_mean=False).fit(X).var_
        column = X[:, [int(np.argmax(variance))]]
        values = column.toarray() if issparse(column) else column
        rank = values.ravel().argsort(kind="stable").argsort()
        return 4 * rank // len(rank)

    def cost(self, Y: np.ndarray, context: np.ndarray, clicks: Rates = CERTAIN, rng=None) -> np.ndarray:
        """Return the translated cost of logged actions, (n,). It has no clicks."""
        return hamming_cost(Y, self.labels[context])

    def loss(self, cost: float, clicks: Rates = CERTAIN) -> float:
        """Convert a mean cost to the unit of the loss, cost + q."""
        return cost + self.labels.shape[1]

    def losses(self, policy, X: Features, absent: np.ndarray | None = None) -> dict[str, float]:
        """Return expected and greedy loss. A label in the mask ``absent`` counts ½ in both."""
        return hamming_losses(policy.marginals(X), policy.greedy(X), self.labels, absent)

    def losses_of_probabilities(self, probability: np.ndarray) -> dict[str, float]:
        """Return expected and greedy loss of labels that are 1 with these probabilities, (n, q)."""
        return hamming_losses(probability, probability > 0.5, self.labels)


class ClassTruth:
    """True class a* of each context.

    The loss is the error rate, and a click costs −1. Policies are softmax regressions.

    Parameters
    ----------
    labels : integer array (n,)
        The classes a*, from 0 to K − 1.
    n_actions : int
        The number K of classes.
    """

    def __init__(self, labels, n_actions: int):
        labels = np.asarray(labels)
        self.labels = check_integers(labels, len(labels), "labels")
        reject_rows((self.labels < 0) | (self.labels >= n_actions), self.labels, "labels", f"0 to {n_actions - 1}")
        self.actions = SingleChoice(n_actions)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows) -> Self:
        """Return the truth of some contexts."""
        return ClassTruth(self.labels[rows], self.actions.shape[0])

    def absent(self) -> np.ndarray:
        """Return the mask of classes without a context, (K,)."""
        return np.bincount(self.labels, minlength=self.actions.shape[0]) == 0

    def fit_policy(self, X: Features, C: float) -> SoftmaxPolicy:
        """Fit a softmax regression to the contexts."""
        from drcrm.paper.reference_policies import fit_softmax

        return fit_softmax(X, self.labels, self.actions.shape[0], C)

    def skyline(
        self, X: Features, X_heldout: Features, heldout: Self, grid: Sequence[float]
    ) -> tuple[SoftmaxPolicy, float]:
        """Return the softmax regression with the smallest greedy error on the held-out contexts, and its C."""
        from drcrm.paper.reference_policies import choose_by_greedy_loss

        return choose_by_greedy_loss(lambda C: self.fit_policy(X, C), grid, X_heldout, heldout.labels)

    def strata(self, X: Features) -> np.ndarray:
        """Return the class of each context."""
        return self.labels

    def cost(self, A: np.ndarray, context: np.ndarray, clicks: Rates = CERTAIN, rng=None) -> np.ndarray:
        """Return the cost of logged actions, (n,): −1 for a click and 0 otherwise.

        ``clicks`` has the probabilities of a click on the right action and on a wrong action. With probabilities 1 and
        0, no random number is drawn.
        """
        right = self.labels[context] == A
        if tuple(clicks) != CERTAIN:
            right = rng.random(len(right)) < np.where(right, *clicks)
        return np.where(right, -1.0, 0.0)

    def loss(self, cost: float, clicks: Rates = CERTAIN) -> float:
        """Convert a mean cost to an error rate, (cost + right)/(right − wrong) with the two click probabilities."""
        right, wrong = clicks
        return (cost + right) / (right - wrong)

    def losses(self, policy, X: Features, absent: np.ndarray | None = None) -> dict[str, float]:
        """Return expected and greedy loss, the means of 1 − π(a*|x) and of 1[a ≠ a*] for the most probable action a."""
        return error_rates(policy.marginals(X), policy.greedy(X), self.labels)

    def losses_of_probabilities(self, probability: np.ndarray) -> dict[str, float]:
        """Return expected and greedy loss of actions drawn with these probabilities, (n, K)."""
        return error_rates(probability, probability.argmax(axis=1), self.labels)


Truth = LabelTruth | ClassTruth


def as_truth(labels, n_actions: int | None = None) -> Truth:
    """Return the truth of labels (n, q) or classes (n,). A truth is returned unchanged.

    The default number of classes is the largest class + 1.
    """
    if isinstance(labels, Truth):
        return labels
    if np.ndim(labels) == 1 and np.size(labels):
        return ClassTruth(labels, int(np.max(labels)) + 1 if n_actions is None else n_actions)
    return LabelTruth(labels)


def generator(dataset: str, seed: int, step: str) -> np.random.Generator:
    """Return the random generator of a step.

    The generator depends only on the data set, the seed and the step, so experiments with different options share their
    draws.
    """
    return np.random.default_rng([zlib.crc32(f"{dataset}/{step}".encode()), seed])


def split_contexts(
    n: int, unit: str, logging_fraction: float, heldout_fraction: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Split n contexts and return the rising context numbers of ``logging``, ``train`` and ``heldout``.

    The contexts of ``logging`` train the logging policy π0. With ``unit`` "context" they are a fraction of the training
    part, as in the paper's text. With "row" they are a fraction of all contexts, as in the public POEM code. That code
    holds out rows after the replay. Numbers of contexts are rounded up.
    """
    shuffled = rng.permutation(n)
    n_heldout = _share(heldout_fraction, n)
    heldout, train = shuffled[:n_heldout], shuffled[n_heldout:]
    if not len(train):
        raise InputError(f"no context is left to train on: a fraction of {heldout_fraction} holds out all of {n}")
    candidates = train if unit == "context" else np.arange(n)
    logging = rng.choice(candidates, _share(logging_fraction, len(candidates)), replace=False)
    return {"logging": np.sort(logging), "train": np.sort(train), "heldout": np.sort(heldout)}


def heldout_rows(n: int, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Return a random mask (n,) of the held-out rows. Their number is rounded up."""
    is_heldout = np.zeros(n, dtype=bool)
    is_heldout[rng.permutation(n)[: _share(fraction, n)]] = True
    return is_heldout


def _share(fraction: float, n: int) -> int:
    """Return a fraction of n, rounded up and at least 1."""
    return max(1, math.ceil(fraction * n - 1e-9))  # 0.07 · 100 is slightly above 7


def replay(
    policy,
    X: Features,
    labels,
    count: int,
    rng: np.random.Generator,
    clicks: Rates = CERTAIN,
    click_rng: np.random.Generator | None = None,
) -> BanditLog:
    """Draw a log: a policy acts on every labelled context ``count`` times.

    The log has N · count rows, one pass over the contexts after the other. With generators in the same state, a log of
    fewer passes is a prefix of it. The cost of a label vector is its translated Hamming loss. The cost of one action
    of K is −1 for a click and 0 otherwise.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    X : array or CSR (N, d)
    labels : Truth, or array (N, q) of 0 and 1, or integer array (N,)
    count : int
        Number of passes, Δ in section 4 of the paper.
    rng : Generator
        Draws the actions.
    clicks : (float, float)
        Probabilities of a click on the right action and on a wrong action, by default 1 and 0.
    click_rng : Generator, optional
        Draws the clicks unless the probabilities are 1 and 0. The actions do not depend on it.
    """
    truth: Truth = as_truth(labels, policy.actions.log_options.get("n_actions"))
    mean, kind = policy.marginals(X), policy.actions
    Y = np.concatenate([kind.check(kind.sample(mean, rng)) for _ in range(count)])
    context = np.tile(np.arange(X.shape[0]), count)
    propensity = np.exp(policy.log_prob(X, Y, context))
    return BanditLog(X, Y, propensity, truth.cost(Y, context, clicks, click_rng), context, **kind.log_options)
