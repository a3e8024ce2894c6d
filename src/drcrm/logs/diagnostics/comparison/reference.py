"""The reference of a comparison: the logging policy or a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.evaluation import LOGGING, Evaluation

LOGGING_POLICY, BASELINE = "the logging policy", "the baseline"  # in sentences; a name follows the second


@dataclass(frozen=True, eq=False)
class Reference:
    """What a policy is compared with: the logging policy π0, or a baseline.

    Attributes
    ----------
    name : str
        Its name in sentences.
    policy : any policy that :func:`drcrm.off_policy_value` accepts, StoredPolicy, "logging" or None
        The baseline, which is stored until a log is opened. π0 has the logged costs. None compares with a cost of 0.
    factor : float
        The factor f of its cost: certificates bound the cost of a policy minus f times this cost.
    radius : float, optional
        Radius κ, if both policies have their worst case around the environment: see
        :class:`drcrm.risks.EnvironmentBall`.
    largest_probability : float
        Upper bound on the probability of an action under the baseline.
    is_judged : bool
        Whether the judged policy has the logged propensities, so that it is compared with itself.
    """

    name: str = LOGGING_POLICY
    policy: Any = LOGGING
    factor: float = 1.0
    radius: float | None = None
    largest_probability: float = 1.0
    is_judged: bool = False

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline, not the logging policy."""
        return not isinstance(self.policy, str)

    def evaluation(self, policy: Any, log: BanditLog, **known: Any) -> Evaluation:
        """Return the evaluation of a policy on a log in comparison with the reference: see :meth:`Evaluation.of`."""
        return Evaluation.of(policy, log, baseline=self.policy, **known)
