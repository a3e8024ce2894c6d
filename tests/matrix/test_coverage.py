"""Bounds on small logs of known truth: for each kind of unit, they hold in at least 91 % of 200 logs."""

import json

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm

from drcrm import BanditLog, read_log
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError

LOGS, LEAST = 200, 0.91
N = 300
SIZES = {"groups_equal": (3,), "groups_unequal": (1, 2, 6)}
MOST_ROWS = {"groups_equal": 3, "groups_unequal": 6, "pdrop": 10}
GRID = norm.ppf((np.arange(400) + 0.5) / 400)  # contexts of equal probability


def probabilities(x: np.ndarray, slope: float) -> np.ndarray:
    return softmax(np.column_stack([slope * x, 0 * x]), axis=1)


def mean_cost(x: np.ndarray, action: np.ndarray | int, size: np.ndarray | int) -> np.ndarray:
    """Return the probability of a cost of 1: action 1 is bad for positive x, and rows of large groups are bad."""
    return 0.2 + 0.3 * action * (x > 0) + 0.4 * (size > 2)


def draw(units: str, rng: np.random.Generator) -> tuple[BanditLog, np.ndarray | None, np.ndarray, float]:
    """Return a log, its groups, the policy's probabilities of the logged actions, and its true cost per row."""
    sizes = np.resize(SIZES.get(units, (1,)), N)
    group = np.repeat(np.arange(N), sizes)[:N]
    size = sizes[group]
    x = rng.choice(GRID[::40] if units == "count" else GRID, N)
    logged = probabilities(x, 0.5)
    action = (rng.random(N) > logged[:, 0]).astype(int)
    luck = np.where(rng.random(N) < 0.6, rng.random(N)[group], rng.random(N))
    cost = (luck < mean_cost(x, action, size)).astype(float)
    p, policy = (probabilities(x, slope)[np.arange(N), action] for slope in (0.5, -1.0))
    grid = GRID[::40] if units == "count" else GRID
    truth = float((probabilities(grid, -1.0)[:, 1] * mean_cost(grid, 1, 0)).mean())
    truth += float((probabilities(grid, -1.0)[:, 0] * mean_cost(grid, 0, 0)).mean() + 0.4 * (size > 2).mean())
    if units == "count":  # independent rows that are equal
        _, first, count = np.unique([x, action, cost], axis=1, return_index=True, return_counts=True)
        log = BanditLog(x[first, None], action[first], p[first], cost[first], count=count)
        return log, None, policy[first], truth
    log = BanditLog(x[:, None], action, p, cost)
    return log, group if units in SIZES else None, policy, truth


def draw_dropped(rng: np.random.Generator, path) -> tuple[BanditLog, None, np.ndarray, float]:
    """Return a log of events of which 90 % of those without a cost were dropped."""
    log, _, policy, truth = draw("rows", rng)
    dropped = np.where(log.cost == 1, 0.0, 0.9)
    kept = np.flatnonzero(rng.random(N) >= dropped)
    with path.open("w") as file:
        for row in kept:
            event = {"_label_cost": log.cost[row], "_label_probability": log.propensity[row], "pdrop": dropped[row]}
            event |= {
                "_label_Action": int(log.Y[row]) + 1,
                "c": {"x": log.X[row, 0], "_multi": [{"a": "u"}, {"a": "v"}]},
            }
            file.write(json.dumps(event) + "\n")
    return read_log(path), None, policy[kept], truth


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kl", "anytime"])
@pytest.mark.parametrize("units", ["rows", "groups_equal", "groups_unequal", "count", "pdrop"])
def test_bounds_hold_for_each_kind_of_unit(units, method, tmp_path):
    rng, held = np.random.default_rng(7), []
    for number in range(LOGS):
        drawn = draw_dropped(rng, tmp_path / f"{number}.dsjson") if units == "pdrop" else draw(units, rng)
        log, groups, policy, truth = drawn
        options = {"cost_range": (0, 1), "groups": groups, "method": method, "check_tails": False}
        options["estimate"] = "snips" if method == "kl" else "ips"
        if method == "anytime":
            options["most_rows"] = MOST_ROWS.get(units)
        if (units, method) == ("count", "anytime"):  # copies have no order
            with pytest.raises(InputError, match="need rows that occur once"):
                policy_certificate(policy, log, **options)
            return
        held.append(truth <= policy_certificate(policy, log, **options).bound)
    assert np.mean(held) >= LEAST, np.mean(held)
