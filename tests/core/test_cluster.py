"""On the workers of a cluster a fit is the one of a single machine, whatever becomes of a worker."""

import os
import signal
from itertools import count

import numpy as np
import pytest

from drcrm.core import design, parts
from drcrm.core.cluster import on_cluster, share_of
from drcrm.core.design import Design
from drcrm.core.learning import learn
from drcrm.core.objective import Objective
from drcrm.core.optimiser import minimize_objectives
from drcrm.core.pieces import Pieces
from drcrm.core.risks import Chi2Ball, KLBall, MeanRisk
from drcrm.errors import InputError

from .test_stored import ALGORITHM, logged, written

distributed = pytest.importorskip("distributed", reason="the extra drcrm[dask] is not installed")


@pytest.fixture(scope="module")
def client():
    options = {"dashboard_address": ":0", "processes": True, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "LARGE", 100)
    monkeypatch.setattr(design, "LARGE", 100)
    monkeypatch.setattr(parts, "MOST", 64)


def objective_of(kind: str, risk, estimate: str = "dr", m: int = 900, shuffled: bool = False) -> Objective:
    rng = np.random.default_rng(0)
    log = logged(kind, m, rng)
    if shuffled:
        order = rng.permutation(m)
        rows = {name: getattr(log, name)[order] for name in ("Y", "cost", "propensity", "count", "context")}
        log = log.derived(**rows)
    effects = rng.normal(size=(m, *log.actions.effect_shape))
    return Objective(Design(log, effects, trains=True), risk, estimate=estimate)


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("kind", ["labels", "single"])
def test_shares_of_the_rows_add_up(kind, shuffled):
    objective = objective_of(kind, MeanRisk(), shuffled=shuffled)
    given = objective.design, objective.weight, objective.estimate
    whole, coef = Pieces(*given), np.random.default_rng(1).normal(size=objective.design.shape)
    shares = []
    for ends in ((0, 4), (4, 5), (5, len(objective.design.parts))):
        design, estimate = share_of(objective.design, objective.estimate, *ends)
        shares.append(Pieces(design, objective.weight, estimate))
    ends = whole.forward(coef)
    found = [each.forward(coef) for each in shares]
    assert (min(low for low, _ in found), max(high for _, high in found)) == ends
    assert sum(each.gathered()[1].sum() for each in shares) == pytest.approx(1)
    worst = KLBall(0.1).over(whole, ends, 900.0)[1]
    assert sum(each.backward(worst) for each in shares) == pytest.approx(whole.backward(worst), rel=1e-12, abs=1e-14)


def test_a_share_of_few_rows_has_the_parts_of_all_and_leaves_them_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "LARGE", 800)
    objective, coef = objective_of("single", KLBall(0.1)), np.random.default_rng(1).normal(size=(4, 3))
    log, effects = objective.design.log, objective.design.effects
    on_disk = log.derived(X=written(tmp_path / "X.rows", log.X))
    stored = Design(on_disk, written(tmp_path / "effects.rows", effects), trains=True)
    found = []
    for of in (objective.design, stored):
        for ends in ((0, 4), (4, 5), (5, len(of.parts))):
            design, estimate = share_of(of, objective.estimate, *ends)
            assert len(design.parts) == ends[1] - ends[0]
            share = Pieces(design, objective.weight, estimate)
            found.append((share.forward(coef), share.backward(lambda z, share: share).tolist()))
    assert found[:3] == found[3:]


@pytest.mark.parametrize("estimate", ["ips", "dr"])
@pytest.mark.parametrize("risk", [MeanRisk(), KLBall(0.1), KLBall(90), KLBall("auto")], ids=repr)
@pytest.mark.parametrize("kind", ["labels", "single"])
def test_workers_find_the_objective(kind, risk, estimate, client):
    objective = objective_of(kind, risk, estimate)
    coef = np.random.default_rng(1).normal(size=objective.design.shape)
    value, slope = objective(coef)
    with on_cluster(client):
        for _ in range(2):
            found, gradient = objective(coef)
            assert found == pytest.approx(value, rel=1e-12)
            assert gradient == pytest.approx(slope, rel=1e-10, abs=1e-14)


def test_a_risk_that_is_no_few_sums_is_refused(client):
    objective = objective_of("single", Chi2Ball(0.1))
    with on_cluster(client), pytest.raises(InputError, match="found by sums over rows"):
        objective(np.zeros(objective.design.shape))


@pytest.mark.parametrize("kind", ["labels", "single"])
def test_a_log_on_disk_is_learned_from_by_workers_as_by_one_machine(kind, client, tmp_path, monkeypatch):
    monkeypatch.setattr(design, "SAMPLE", 400)
    rng = np.random.default_rng(0)
    train, heldout = logged(kind, 2000, rng), logged(kind, 400, rng)
    alone = learn(train, ALGORITHM, heldout)
    with on_cluster(client, tmp_path):
        together = learn(train.derived(X=written(tmp_path / "X.rows", train.X)), ALGORITHM, heldout)
    assert together.fits.scores == pytest.approx(alone.fits.scores, rel=1e-8, abs=1e-8, nan_ok=True)
    assert together.fits.coef == pytest.approx(alone.fits.coef, rel=1e-8, abs=1e-8)


def test_a_worker_that_dies_is_survived(client):
    objective = objective_of("single", KLBall(0.1))
    [alone] = minimize_objectives([objective], np.zeros(objective.design.shape))
    workers, calls = client.run(os.getpid), count()

    class Dying(KLBall):
        def over(self, *given):
            if next(calls) == 5:
                os.kill(min(workers.values()), signal.SIGKILL)
            return super().over(*given)

    objective.risk = Dying(0.1)
    with on_cluster(client):
        [found] = minimize_objectives([objective], np.zeros(objective.design.shape))
    assert next(calls) > 6
    assert found.coef == pytest.approx(alone.coef, rel=1e-8, abs=1e-8)
