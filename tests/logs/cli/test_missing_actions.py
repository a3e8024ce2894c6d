"""Actions that a log lacks in a few per cent of the rows: ``learn`` and ``certify`` charge them."""

import json

import numpy as np
import pandas as pd
import pytest

from drcrm.__main__ import main
from drcrm.logs.policy_file import read_policy

MAPPING = {"action": "action", "propensity": "p", "reward": "score", "algorithm": "cips"}
MAPPING |= {"features": {"numeric": ["x", "u"]}, "cost_range": [-1, 0]}


def write_log(path, n, seed):
    """Write a log in which action a, better elsewhere, is never drawn where u is below 0.1."""
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=n), rng.random(n)
    P = np.where(u[:, None] < 0.1, [0, 0.5, 0.5], [0.4, 0.3, 0.3])
    action = (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    frame = pd.DataFrame({"x": x, "u": u, "action": np.array(["a", "b", "c"])[action], "p": P[np.arange(n), action]})
    frame.assign(score=0.7 + 0.1 * (action == 0) + 0.1 * rng.uniform(-1, 1, n)).to_csv(path, index=False)


def run(command, log, tmp_path, *options):
    """Return the answer of a command on a log."""
    main([command, *options, str(log), "--json", str(tmp_path / "answer.json")])
    return json.loads((tmp_path / "answer.json").read_text())


def is_charged(answer):
    [best] = [candidate for candidate in answer["candidates"] if candidate.get("best")]
    charges = [caution for caution in answer["verdict"]["cautions"] if "(a)" in caution]
    assert len(charges) == best["certificate"]["missing"]
    return best["certificate"]["missing"]


@pytest.mark.slow
@pytest.mark.usefixtures("shipped_sizes")
@pytest.mark.filterwarnings("ignore")
def test_learn_and_certify_charge_the_cells_that_learn_finds(tmp_path, capsys):
    first, second, policy = (tmp_path / name for name in ("first.csv", "second.csv", "policy.npz"))
    write_log(first, 1600, 0)
    write_log(second, 500, 1)
    options = "--output", str(policy), "--config"
    for name, content in (("plain", MAPPING), ("full", MAPPING | {"least_propensity": 0.3})):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert not is_charged(run("learn", first, tmp_path, *options, str(tmp_path / "full.json")))
    assert read_policy(policy).cells is None
    assert is_charged(run("learn", first, tmp_path, *options, str(tmp_path / "plain.json")))
    cells = read_policy(policy).cells
    assert set(cells.action) == {0}
    candidate = str(tmp_path / "policy.candidate.npz")
    candidate = candidate if (tmp_path / "policy.candidate.npz").exists() else str(policy)
    assert is_charged(run("certify", second, tmp_path, candidate))
