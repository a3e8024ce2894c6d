"""Rows of count 0, and contexts without rows, change no result of a public function."""

import numpy as np
import pytest
from fixtures.action_logs import ACTION_KINDS, log_and_policy
from sklearn.linear_model import Ridge

import drcrm
from drcrm import CIPS, KLDRO, BanditLog, CostModel, DoublyRobustDRO, off_policy_value, policy_support
from drcrm.certificates import policy_certificate, sensitivity
from drcrm.logs.decisions.api import diagnose

ARRAYS = "Y", "propensity", "cost", "context", "count"


def arguments_of(log: BanditLog) -> tuple:
    """Return the arguments of an estimator's ``fit``."""
    arrays = {name: getattr(log, name) for name in ARRAYS}
    return (log.actions.unbind(log.X), arrays.pop("Y")), arrays


@pytest.mark.parametrize("kind", ACTION_KINDS)
@pytest.mark.parametrize(
    "make",
    [CIPS, KLDRO, lambda: DoublyRobustDRO(safe=False), lambda: DoublyRobustDRO(random_state=0)],
    ids=["ips", "ball", "dr", "heldout"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_leave_them_out(kind, make):
    log, *_ = log_and_policy(kind, 400, 120)
    fits, scores = [], []
    for part in (log, log.without_empty_rows()):
        rows, arrays = arguments_of(part)
        fits.append(make().fit(*rows, **arrays))
        scores.append(fits[-1].score(*rows, **arrays))
    assert (log.count == 0).any()
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert scores[0] == scores[1]


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_cost_models_estimates_and_certificates_leave_them_out(kind):
    log, policy, _ = log_and_policy(kind, 400, 120)
    log = log.with_groups(np.arange(400) % 90)
    results = []
    for part in (log, log.without_empty_rows()):
        model = CostModel().fit(part)
        known = {"cost_model": model}
        results.append(
            [
                *np.ravel(model.coef_),
                *(
                    off_policy_value(policy, part, name, **known)
                    for name in ("ips", "clipped_ips", "snips", "dm", "dr")
                ),
                off_policy_value(policy, part, "dr", cost_model=Ridge()) if kind != "labels" else 0.0,
                policy_certificate(policy, part, "dr", baseline="logging", **known).bound,
                policy_certificate(policy, part, "ips", method="betting", cost_range=(-1, 0), most_rows=20).bound,
                policy_support(policy, part).mass,
                sensitivity(policy, part, gamma=1.5).worst,
            ]
        )
    assert results[0] == results[1]


def test_commands_leave_them_out(tmp_path):
    rng = np.random.default_rng(0)
    X, Y, count = rng.normal(size=(900, 2)), rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    rows = {
        "X": X,
        "Y": Y,
        "propensity": np.full(900, 0.5),
        "cost": -1.0 * (rng.random(900) < 0.2 + 0.3 * ((X[:, 0] > 0) == Y)),
    }
    answers = []
    for name, kept in {"all": count >= 0, "occurring": count > 0}.items():
        np.savez(tmp_path / f"{name}.npz", **{key: values[kept] for key, values in (rows | {"count": count}).items()})
        log, mapping = tmp_path / f"{name}.npz", {"algorithm": "kl_dro_dr"}
        learned = drcrm.learn(log, mapping, output=tmp_path / "policy.npz", candidate=tmp_path / "best.npz")
        judged = [command(tmp_path / "policy.npz", log) for command in (drcrm.certify, drcrm.evaluate)]
        answers.append([part.as_dict() for part in (learned, *judged, diagnose(log, mapping))])
    for first, second in zip(*answers, strict=True):
        for part in (first, second):
            del part["log"], part["largest_rows"]  # the digest and the number of each row differ
        assert first == second
