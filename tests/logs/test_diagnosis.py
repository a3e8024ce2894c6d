"""What a log says of a policy and of itself: every planted fault is named, and nothing else."""

from __future__ import annotations

import numpy as np

from drcrm import BanditLog, CostModel, SoftmaxPolicy
from drcrm.logs.diagnosis import diagnose
from drcrm.logs.verdict import compared, verdict

K = 4
RNG = np.random.default_rng(5)
THETA = RNG.normal(size=(3, K))


def drawn(n: int, sharp: float = 0.7, seed: int = 0, click: float = 0.3):
    """A log of one action of 4, its true π0, and the best policy: reward is more likely of the largest score of THETA."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    logging = SoftmaxPolicy(sharp * np.roll(THETA, 1, axis=1))
    p = logging.marginals(X)
    Y = logging.sample(X, rng)
    reward = rng.random(n) < np.where((X @ THETA).argmax(axis=1) == Y, click + 0.3, click)
    log = BanditLog(X, Y, p[np.arange(n), Y], -reward.astype(float), n_actions=K)
    return log, logging, SoftmaxPolicy(3 * THETA)


def level(diagnosis, name: str) -> str:
    return next(each.level for each in diagnosis.diagnostics if each.name == name)


def test_a_good_log_is_good():
    log, _, best = drawn(3000)
    model = CostModel(0.01).fit_log(drawn(3000, seed=1)[0])
    diagnosis = diagnose(log, best, cost_model=model)
    assert [each.name for each in diagnosis.diagnostics if each.level != "good"] == []
    found = verdict(compared(best, log, cost_model=model), diagnosis)
    assert found.verdict == "better"
    worst = SoftmaxPolicy(-3 * THETA)
    diagnosis = diagnose(log, worst, cost_model=model)
    print([e for e in diagnosis.diagnostics if e.level != "good"])
    assert verdict(compared(worst, log, cost_model=model), diagnosis).verdict == "worse"
