"""The ball around the environment: contexts and costs may differ from those of the log by at most a radius κ."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.arrays.validation import check_nonnegative
from drcrm.divergences import Divergence
from drcrm.risks.balls.base import Ball, Dual
from drcrm.risks.balls.kl import KLBall
from drcrm.risks.balls.phi import PhiBall
from drcrm.risks.base import Evaluation


class EnvironmentBall(Ball):
    """Worst case R_κ over laws of (context, action, cost) with divergence at most κ from the law P_π under a policy.

    R_κ(π) = sup {E_Q c : D(Q‖P_π) ≤ κ}. With KL, R_κ bounds the mean cost on every subpopulation that makes up a share
    of at least e^{−κ} of the deployed traffic. The policy's own draw of actions is part of the law, so Q may also tilt
    it. An estimate of R_κ evaluates the ball at the costs themselves, with importance weights as multiplicities.
    Sources: Si, Zhang, Zhou & Blanchet 2020; Kallus, Mao, Wang & Zhou 2022.

    Parameters
    ----------
    radius : float ≥ 0 or None
        Radius κ, in nats for KL. It is a property of the environment and does not depend on the number of rows. CVaR
        needs None.
    divergence : Divergence, str or dict
        An object of :mod:`drcrm.divergences` or its name.
    """

    is_shift, estimates = True, ("dr", "snips")

    def __init__(self, radius: float | None, divergence: Divergence | str | Mapping = "kl"):
        self.radius = None if radius is None else check_nonnegative(radius, "radius")
        self._ball: Ball = KLBall(radius) if divergence == "kl" else PhiBall(divergence, radius)
        self.divergence, self.curvature = divergence, self._ball.curvature

    def for_fewer_rows(self, factor: float) -> "EnvironmentBall":
        return self

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        return self._ball.evaluate(z, share, n, guess)

    def solve_dual(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Dual:
        return self._ball.solve_dual(z, share, n, guess)

    @property
    def phi_divergence(self) -> Divergence:
        return self._ball.phi_divergence
