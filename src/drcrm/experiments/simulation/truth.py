"""What labelled data say of their contexts, all labels of each or its one class: all that tells the one from the other.

A truth has the policies that are fitted to it, π0 and the skyline, the cost of a logged action, and the losses of a
policy. Nothing else in the simulation asks which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drcrm.actions.label_vectors import LabelVectors
from drcrm.actions.single_choice import SingleChoice
from drcrm.arrays.validation import check_actions, check_integers, reject_rows
from drcrm.errors import InputError
from drcrm.experiments.simulation.climbing import climbed
from drcrm.experiments.simulation.losses import check_labels, error_rates, hamming_cost, hamming_losses
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy

CERTAIN = (1.0, 0.0)  # the probabilities of a click: the right action has one, a wrong one has none

Rates = Sequence[float]


class LabelTruth:
    """Labels y* ∈ {0,1}^q: the loss is Hamming's, in labels, its cost is translated by −q, policies are CRFs.

    Parameters
    ----------
    labels : array (n, q)
    """

    def __init__(self, labels):
        self.labels = check_actions(labels, name="labels")
        self.actions = LabelVectors(self.labels.shape[1])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows) -> LabelTruth:
        """The truth of some contexts."""
        return LabelTruth(self.labels[rows])

    @property
    def vectors(self) -> np.ndarray:
        """The labels, (n, q)."""
        return self.labels

    def absent(self) -> np.ndarray:
        """Return which labels have no positive, (q,)."""
        from drcrm.experiments.simulation.crf import absent_labels

        return absent_labels(self.labels)

    def logging_policy(self, X, C: float, sharpness: float = 1) -> ExponentialPolicy:
        """Return π0: the CRF of labelled contexts, its coefficients times η, the sharpness."""
        from drcrm.experiments.simulation.crf import fit_crf

        return ExponentialPolicy(sharpness * fit_crf(X, self.labels, C).coef)

    def skyline(self, X, X_heldout, heldout: LabelTruth, grid: Sequence[float]) -> tuple[ExponentialPolicy, float]:
        """Return the best CRF of a grid of C by its greedy loss held out, and its C."""
        from drcrm.experiments.simulation.crf import fit_skyline

        return fit_skyline(X, self.labels, X_heldout, heldout.labels, grid)

    def cost(self, Y: np.ndarray, context: np.ndarray, clicks: Rates = CERTAIN, rng=None) -> np.ndarray:
        """Return the translated cost of logged actions, (n,); InputError for clicks that are not certain."""
        _check_certain(clicks)
        return hamming_cost(Y, self.labels[context])

    def loss(self, cost: float, clicks: Rates = CERTAIN) -> float:
        """Return what a mean cost is in the units of the loss: cost + q."""
        _check_certain(clicks)
        return cost + self.labels.shape[1]

    def check(self, policy) -> None:
        """Raise InputError for a policy of other actions."""
        check_labels(policy, self.labels)

    def losses(self, policy, X, absent: np.ndarray | None = None) -> dict[str, float]:
        """Return expected and greedy loss; a label of the mask ``absent`` counts ½ in each."""
        return hamming_losses(policy, X, self.labels, absent)

    def losses_of_probabilities(self, _) -> dict[str, float]:
        """InputError: probabilities of all actions are of one action of K."""
        raise InputError("probabilities of classes, expected a policy of label vectors")


class ClassTruth:
    """One class a* of K: the loss is the error rate, the cost −1 for the right action, policies softmax regressions.

    Parameters
    ----------
    labels : integer array (n,)
        a*, from 0 to K − 1.
    n_actions : int
        K.
    """

    def __init__(self, labels, n_actions: int):
        labels = np.asarray(labels)
        self.labels = check_integers(labels, len(labels), "labels")
        reject_rows((self.labels < 0) | (self.labels >= n_actions), self.labels, "labels", f"0 to {n_actions - 1}")
        self.actions = SingleChoice(n_actions)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows) -> ClassTruth:
        """The truth of some contexts."""
        return ClassTruth(self.labels[rows], self.actions.shape[0])

    @property
    def vectors(self) -> np.ndarray:
        """InputError: there are no label vectors."""
        raise InputError("one action of K, expected label vectors")

    def absent(self) -> np.ndarray:
        """Return which classes no context has, (K,)."""
        return np.bincount(self.labels, minlength=self.actions.shape[0]) == 0

    def logging_policy(self, X, C: float, sharpness: float = 1) -> SoftmaxPolicy:
        """Return π0: the softmax regression of labelled contexts, its coefficients times η, the sharpness."""
        from drcrm.experiments.simulation.softmax import fit_softmax

        return SoftmaxPolicy(sharpness * fit_softmax(X, self.labels, self.actions.shape[0], C).coef)

    def skyline(self, X, X_heldout, heldout: ClassTruth, grid: Sequence[float]) -> tuple[SoftmaxPolicy, float]:
        """Return the best softmax regression of a grid of C by its greedy error held out, and its C."""
        return climbed(lambda C: self.logging_policy(X, C), grid, X_heldout, heldout.labels)

    def cost(self, A: np.ndarray, context: np.ndarray, clicks: Rates = CERTAIN, rng=None) -> np.ndarray:
        """Return the cost of logged actions, (n,): −1 with the probability of a click, of the right or a wrong one.

        Certain ones draw no random number.
        """
        right = self.labels[context] == A
        if _checked(clicks) != CERTAIN:
            right = rng.random(len(right)) < np.where(right, *clicks)
        return np.where(right, -1.0, 0.0)

    def loss(self, cost: float, clicks: Rates = CERTAIN) -> float:
        """Return what a mean cost is in the units of the loss: (cost + right)/(right − wrong), an error rate."""
        right, wrong = _checked(clicks)
        return (cost + right) / (right - wrong)

    def check(self, policy) -> None:
        """Raise InputError for a policy of other actions."""
        if str(policy.actions) != str(self.actions):
            raise InputError(f"the policy has {policy.actions}, expected {self.actions}")

    def losses(self, policy, X, absent: np.ndarray | None = None) -> dict[str, float]:
        """Return expected and greedy loss, 1 − π(a*|x) and 1[a ≠ a*] of the most probable a."""
        if absent is not None:
            raise InputError("an absent label counts ½ under label vectors alone, not with one action of K")
        self.check(policy)
        return error_rates(policy.marginals(X), policy.greedy(X), self.labels)

    def losses_of_probabilities(self, probability: np.ndarray) -> dict[str, float]:
        """Return expected and greedy loss of actions drawn with these probabilities, (n, K)."""
        if probability.shape != (shape := (len(self), self.actions.shape[0])):
            raise InputError(f"probability has shape {probability.shape}, expected {shape}")
        return error_rates(probability, probability.argmax(axis=1), self.labels)


Truth = LabelTruth | ClassTruth


def as_truth(labels, n_actions: int | None = None) -> Truth:
    """Return a truth: as it is, or of labels (n, q), or of classes (n,) of K, by default the largest + 1."""
    if isinstance(labels, Truth):
        return labels
    if np.ndim(labels) == 1 and np.size(labels):
        return ClassTruth(labels, int(np.max(labels)) + 1 if n_actions is None else n_actions)
    return LabelTruth(labels)


def _checked(clicks: Rates) -> tuple[float, float]:
    """The two probabilities; InputError where they are none, or a wrong action's is not below the right one's."""
    right, wrong = map(float, clicks)
    if not 0 <= wrong < right <= 1:
        raise InputError(f"click rates are {right:g} and {wrong:g}, expected 1 ≥ right > wrong ≥ 0")
    return right, wrong


def _check_certain(clicks: Rates) -> None:
    if _checked(clicks) != CERTAIN:
        raise InputError("click rates are of one action of K, not of label vectors")
