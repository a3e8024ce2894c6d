"""Verdicts of ``drcrm learn`` on logs that lack an action in a few per cent of the rows, and on logs that lack none.

    python benchmarks/missing_actions.py [REPETITIONS [KIND ...]]

In the harmful kinds, the logging policy never takes action 0 where it is bad, and its propensities are right. Elsewhere
action 0 is better than the others, but by less than it loses there. A policy that takes it everywhere is worse, and the
verdict *better* on such a policy is false. In the good kinds no action is missing, and *better* is right. The output
has, of all logs, the verdicts *better* on worse policies, all verdicts *better*, and the certificates that charge
missing actions. The truth is the mean over 100 000 contexts.

threshold, share 3, share 8   scores from 0 to 1, three actions; 4.8, 3 or 8 % of the values of a feature
clicks                        threshold with clicks instead of scores
box                           a box in two features, of 4.8 % of the contexts
category                      one of 20 categories
revenue                       five actions, and revenue instead of scores
uniform, epsilon greedy       good kinds by their logging policy; epsilon is 0.06, so the smallest propensity is 0.02
softmax, slopes               softmax policies, the second with strong slopes and propensities of at least 0.02
segments                      each of five categories has its own probabilities, of at least 0.02
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from drcrm import load_policy
from drcrm.__main__ import main as run

ROWS, POPULATION, LEAST = 4000, 100_000, 0.02
HARMFUL = "threshold", "clicks", "box", "category", "revenue", "share 3", "share 8"
GOOD = "uniform", "epsilon greedy", "softmax", "slopes", "segments"
GAINS = {"share 3": 0.033, "share 8": 0.09, "revenue": 0.045, "clicks": 0.065}  # of action 0; otherwise 0.055


def draw_world(kind: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return contexts, the probabilities of the logging policy, and the mean rewards, both (n, K)."""
    K, x, u, category = (
        5 if kind == "revenue" else 3,
        rng.normal(size=(n, 2)),
        rng.random((n, 2)),
        rng.integers(0, 20, n),
    )
    slopes = np.random.default_rng(3).normal(size=(2, K))
    if kind == "box":
        is_bad = (u < 0.048**0.5).all(axis=1)
    elif kind == "category":
        is_bad = category == 7
    else:
        is_bad = u[:, 0] < {"share 3": 0.03, "share 8": 0.08}.get(kind, 0.048)
    P = softmax(0.5 * x @ slopes, axis=1)
    if kind == "uniform":
        P = np.full((n, K), 1 / K)
    elif kind == "epsilon greedy":
        P = LEAST + (1 - K * LEAST) * np.eye(K)[(x @ slopes).argmax(axis=1)]
    elif kind == "slopes":
        P = LEAST + (1 - K * LEAST) * softmax(3 * x @ slopes, axis=1)
    elif kind == "segments":
        P = (LEAST + (1 - K * LEAST) * np.random.default_rng(4).dirichlet(np.full(K, 0.7), size=5))[category % 5]
    mean = np.full((n, K), 0.93 if kind == "clicks" else 0.8)
    mean[:, 0] += GAINS.get(kind, 0.055)
    if kind in HARMFUL:
        mean[is_bad, 0] = 0.0
        P[is_bad, 0] = 0.0
        P /= P.sum(axis=1, keepdims=True)
    frame = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "u0": u[:, 0], "u1": u[:, 1]})
    return frame.assign(city=[f"c{number}" for number in category]), P, mean


def learn(kind: str, seed: int, folder: Path) -> tuple[str, float, bool]:
    """Return the verdict on a log, the true change of the reward, and whether missing actions are charged."""
    rng = np.random.default_rng([seed, 63])
    frame, P, mean = draw_world(kind, ROWS, rng)
    action = (P.cumsum(axis=1) < rng.random(ROWS)[:, None]).sum(axis=1).clip(max=P.shape[1] - 1)
    expected, rows = mean[np.arange(ROWS), action], len(action)
    reward = np.clip(expected + 0.1 * rng.uniform(-1, 1, rows), 0, 1)
    if kind == "clicks":
        reward = (rng.random(rows) < expected).astype(float)
    elif kind == "revenue":
        reward = 10 * expected * rng.lognormal(0, 0.15, rows)
    log = frame.assign(action=[f"a{k}" for k in action], p=P[np.arange(ROWS), action], reward=reward)
    log.to_csv(folder / "log.csv", index=False)
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "algorithm": "kl_dro_dr"}
    mapping["features"] = {"numeric": ["x0", "x1", "u0", "u1"]}
    if kind in ("category", "segments"):
        mapping["features"]["categorical"] = ["city"]
    (folder / "mapping.json").write_text(json.dumps(mapping))
    files = {name: folder / name for name in ("policy.npz", "answer.json")}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        options = "--config", folder / "mapping.json", "--output", files["policy.npz"], "--json", files["answer.json"]
        run(["learn", str(folder / "log.csv"), *map(str, options)])
    answer = json.loads(files["answer.json"].read_text())
    [best] = [candidate for candidate in answer["candidates"] if candidate.get("best")]
    change = 0.0
    if answer["verdict"]["verdict"] == "better":
        frame, P, mean = draw_world(kind, POPULATION, np.random.default_rng(0))
        decided, _ = load_policy(files["policy.npz"]).decide(frame, random_state=0)
        taken = np.array([int(str(name)[1:]) for name in decided])
        change = float((mean[np.arange(POPULATION), taken] - (P * mean).sum(axis=1)).mean())
    return answer["verdict"]["verdict"], change, bool(best["certificate"].get("missing"))


def main(repetitions: int, kinds: list[str]) -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            results = [learn(kind, seed, Path(folder)) for seed in range(repetitions)]
            verdicts, changes, charged = zip(*results, strict=True)
            is_better = np.array(verdicts) == "better"
            false = int((is_better & (np.array(changes) < 0)).sum())
            print(
                f"{kind}: {false} false, {is_better.sum()} better, {sum(charged)} charged of {repetitions}", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25, sys.argv[2:] or [*HARMFUL, *GOOD])
