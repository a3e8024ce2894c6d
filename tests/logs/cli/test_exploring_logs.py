"""Logs of simple exploring policies: ε-greedy and uniform logs get an answer, and no check calls their actions rare."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import draw_actions

from drcrm.__main__ import main

MAPPING = {
    "action": "layout",
    "propensity": "p",
    "reward": "signup",
    "features": {"numeric": ["visits"], "categorical": ["device", "segment"]},
    "algorithm": "kl_dro_dr",
}


def learn(tmp_path: Path, log: Path, mapping: str) -> dict:
    """Return the answer of ``learn``."""
    output = ["--output", str(tmp_path / "policy.npz"), "--json", str(tmp_path / "answer.json")]
    assert main(["learn", str(log), "--config", mapping, *output]) == 0
    return json.loads((tmp_path / "answer.json").read_text())


def texts(answer: dict) -> str:
    """Return all sentences about the log that are not good news."""
    checks = [check["sentence"] for check in answer["diagnostics"] if check["level"] != "good"]
    return " ".join([*checks, answer["verdict"]["sentence"], *answer["verdict"]["changes"]])


def draw(probability: np.ndarray, segments: int = 3, names: str = "ABCDEFGH") -> pd.DataFrame:
    """Return a log without effects whose actions have given probabilities, (n, K)."""
    rng = np.random.default_rng(0)
    n = len(probability)
    action = draw_actions(probability, rng)
    return pd.DataFrame(
        {
            "visits": rng.poisson(3, n),
            "device": rng.choice(["mobile", "desktop"], n),
            "segment": rng.integers(0, segments, n),
            "layout": np.array([*names])[action],
            "p": probability[np.arange(n), action],
            "signup": (rng.random(n) < 0.12).astype(int),
        }
    )


@pytest.mark.parametrize(("n_actions", "rows", "segments", "p"), [(5, 400, 60, 0.2), (3, 900, 3, 0.333)])
def test_uniform_logs_have_no_rare_actions(tmp_path, n_actions, rows, segments, p):
    """Five actions in few rows, many categories, and a rounded propensity."""
    frame = draw(np.full((rows, n_actions), 1 / n_actions), segments).assign(p=p)
    frame.to_csv(tmp_path / "log.csv", index=False)
    answer = learn(tmp_path, tmp_path / "log.csv", json.dumps(MAPPING))
    assert answer["verdict"]["verdict"] == "not shown"
    assert not any(word in texts(answer) for word in ("hardly", "support", "cannot follow", "wrong"))
    assert all(action["unsupported"] == 0 for action in answer["actions"])
