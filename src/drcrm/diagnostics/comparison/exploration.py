"""Cost of a policy's exploration, and the information on fixed actions in the next log."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.exponential import LinearPolicy


def describe_exploration(
    policy: LinearPolicy,
    log: BanditLog,
    rows: float,
    *,
    cost_model: Any = None,
    groups: np.ndarray | None = None,
    confidence: float = 0.95,
) -> dict[str, object]:
    """Return the cost of a policy's exploration per row, and the smallest effective sample size in its next log.

    The policy (1 − ε) π + ε U is compared with π. In n rows of the policy, a fixed action a has the effective sample
    size n/E[1/p(a|x)]. Here p(a|x) is its probability, and E the mean over the contexts of the log. For label vectors
    a label value replaces the action, and for lists the candidate with the smallest probability.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    log : BanditLog
        Rows that trained neither the policy nor the cost model.
    rows : float
        n, the number of rows of the next log.
    cost_model : optional
        With a cost model the estimate is "dr", else "snips".
    groups : array (n,), optional
        Ids of independent groups of rows.
    confidence : float
        Level of the interval.

    Returns
    -------
    dict
        - share: ε.
        - cost: the estimate with its interval.
        - rows and effective_size: n, and the smallest effective sample size of a fixed action.
    """
    log = log.recount(log.count)
    estimate = "snips" if cost_model is None else "dr"
    with warnings.catch_warnings(action="ignore"):  # the checks of the policy report the same problems
        cost = off_policy_value(
            policy,
            log,
            estimate,
            baseline=policy.with_exploration(0.0),
            cost_model=cost_model,
            groups=groups,
            confidence=confidence,
        )
    probability = log.actions.fixed_choices(policy.marginals_on(log.X, log.actions))
    of_context = np.bincount(log.context, log.count, log.n_contexts) / log.size
    with np.errstate(divide="ignore", over="ignore"):
        inverse = float((of_context @ (1 / probability)).max())
    return {"share": policy.explore, "cost": cost.as_dict(), "rows": rows, "effective_size": rows / inverse}
