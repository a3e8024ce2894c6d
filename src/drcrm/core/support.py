"""Where a cost model is believed: where the log could have shown that it is wrong.

single choice, lists   ĉ(x, a) is the largest logged cost where π0(a|x) < τ/K_x, K_x the number of actions of the context,
                       and lies between the smallest and the largest logged cost elsewhere
label vectors          R is the 0.99 quantile of |e_l| over training contexts and labels; where π0(y_l = 1|x) < τ/2
                       e_l ← max(e_l, R); where π0(y_l = 0|x) < τ/2 e_l ← min(e_l, −R), and e_0 grows by as much as e_l
                       falls, so that y_l = 0 alone becomes dearer

τ is in units of the uniform policy's probability: that policy has full support over any number of actions.
"""

from dataclasses import dataclass

import numpy as np

from .actions import Actions
from .cost_model import action_effects
from .log import BanditLog
from .policies import LinearPolicy

SUPPORT = 0.05  # τ, by default


@dataclass(frozen=True)
class SupportedModel:
    """A cost model with π0, by which it is believed in some actions alone; in place of a model wherever one is used.

    Parameters
    ----------
    model : CostModel, or any
    logging_policy : LinearPolicy
        π0, or an imitation of it.
    support : float
        τ, from 0, where the model is as it is, to 1.
    limits : (float, float)
        What modelled costs are between, and beyond which what they become: see ``Actions.cost_limits``.
    """

    model: object
    logging_policy: LinearPolicy
    support: float
    limits: tuple[float, float]

    @classmethod
    def of(cls, model: object, log: BanditLog, logging_policy: LinearPolicy, support: float) -> "SupportedModel":
        """Return a log's model with support; the limits are of its costs, or of what the model says of its contexts."""
        limits = log.actions.cost_limits(log.cost, action_effects(model, log.X, log.actions))
        return cls(model, logging_policy, support, limits)

    def supported(self, X, actions: Actions) -> np.ndarray:
        """Return the effects of contexts."""
        effects = action_effects(self.model, X, actions)
        if not self.support:
            return effects
        _, mean = actions.log_partition(self.logging_policy.scores(X))
        return actions.supported(effects, mean, self.support, self.limits)
