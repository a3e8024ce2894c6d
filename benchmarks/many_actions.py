"""Learn from synthetic logs with many actions: python benchmarks/many_actions.py [LOG …] [--rows N] [--json FILE]

Run by hand in the project's environment. For each log it prints the CPU and system seconds of ``drcrm learn``, the
verdict, how many candidates the held-out rows tested, and true mean costs on 20 000 fresh contexts: of the returned
policy, of the logging policy, and of the best action for each context.

A log has standard normal features. The logging policy is a softmax of scores that are partly the true ones; it leaves
10 % to chance.

clicks    60 000 × 12 × 300: the probability of a click is a logistic function of linear scores
sparse    60 000 × 12 × 300: 5 good actions for each context, 0.4 clicks instead of 0.05
costs     60 000 × 12 × 300: linear costs with normal noise
null      60 000 × 12 × 300: clicks that depend on nothing
k500      10 000 × 12 × 500, as clicks
labels    2 000 × 12 × 100 labels: the cost is the share of wrong labels
slope     60 000 × 12 × 50, 100, 200 and 400, as clicks
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from processes import measure
from scipy.special import expit, softmax

from drcrm.logs.policy_file import read_policy

FEATURES, FRESH, CHANCE = 12, 20_000, 0.1
COLUMNS = [f"f{number}" for number in range(FEATURES)]


@dataclass(frozen=True)
class World:
    """Contexts, logging policy and true mean costs of a log."""

    kind: str
    rows: int
    actions: int
    seed: int

    @property
    def is_labels(self) -> bool:
        return self.kind == "labels"

    def contexts(self, rows: int, seed: int) -> np.ndarray:
        """Return features, (rows, d)."""
        return np.random.default_rng([seed, self.seed]).normal(size=(rows, FEATURES)).round(4)

    def _scores(self, X: np.ndarray, seed: int) -> np.ndarray:
        rng = np.random.default_rng([seed, self.seed])
        return X @ rng.normal(size=(FEATURES, self.actions)) / np.sqrt(FEATURES) + 0.5 * rng.normal(size=self.actions)

    def mean_costs(self, X: np.ndarray) -> np.ndarray:
        """Return the mean cost of each action, (rows, K); for labels the cost of setting the label."""
        scores = self._scores(X, 100)
        if self.is_labels:
            return (1 - 2 * expit(3 * scores - 2)) / self.actions
        if self.kind == "costs":
            return -0.5 * scores
        if self.kind == "sparse":
            fifth = np.partition(scores, -5, axis=1)[:, [-5]]
            return -np.where(scores >= fifth, 0.4, 0.05)
        if self.kind == "null":
            return np.full(scores.shape, -0.3)
        return -expit(1.5 * scores - 2)

    def logging(self, X: np.ndarray) -> np.ndarray:
        """Return the logging policy's probability of each action, (rows, K), or of each label."""
        scores = 0.5 * self._scores(X, 100) + 0.5 * self._scores(X, 200)
        if self.is_labels:
            return CHANCE / 2 + (1 - CHANCE) * expit(2 * scores - 2)
        return (1 - CHANCE) * softmax(1.5 * scores, axis=1) + CHANCE / self.actions

    def frame(self) -> pd.DataFrame:
        """Return the log's rows."""
        rng, X = np.random.default_rng([300, self.seed]), self.contexts(self.rows, 400)
        probabilities, costs = self.logging(X), self.mean_costs(X)
        frame = pd.DataFrame(X, columns=COLUMNS)
        if self.is_labels:
            Y = rng.random(probabilities.shape) < probabilities
            wrong = (rng.random(costs.shape) < (1 - costs * self.actions) / 2) != Y
            frame = pd.concat([frame, pd.DataFrame(Y.astype(int), columns=self.names)], axis=1)
            return frame.assign(p=np.where(Y, probabilities, 1 - probabilities).prod(axis=1), cost=wrong.mean(axis=1))
        action = (probabilities.cumsum(axis=1) > rng.random((self.rows, 1))).argmax(axis=1)
        rows = np.arange(self.rows)
        mean = costs[rows, action]
        cost = (
            mean + rng.normal(size=self.rows) * 0.5 if self.kind == "costs" else 0.0 - (rng.random(self.rows) < -mean)
        )
        return frame.assign(action=action, p=probabilities[rows, action], cost=cost.astype(float))

    @property
    def names(self) -> list[str]:
        return [f"y{number}" for number in range(self.actions)]

    @property
    def mapping(self) -> dict:
        action = {"labels": self.names} if self.is_labels else {"action": "action"}
        return {**action, "propensity": "p", "cost": "cost", "features": {"numeric": COLUMNS}}

    def true_costs(self, path: Path) -> tuple[float, float, float]:
        """Return true mean costs of the policy in a file, of the logging policy, and of the best policy."""
        X, stored = self.contexts(FRESH, 500), read_policy(path)
        costs, known = self.mean_costs(X), self.logging(X)
        probabilities = np.zeros(costs.shape)
        names = [int(str(name).removeprefix("y")) for name in stored.encoding.names]
        probabilities[:, names] = stored.policy.marginals(stored.encoding.contexts(pd.DataFrame(X, columns=COLUMNS)))
        base = float((1 - costs * self.actions).sum(axis=1).mean() / 2 / self.actions) if self.is_labels else 0.0
        best = np.minimum(costs, 0).sum(axis=1) if self.is_labels else costs.min(axis=1)
        by_policy = (probabilities * costs).sum(axis=1), (known * costs).sum(axis=1), best
        return tuple(base + float(cost.mean()) for cost in by_policy)


LOGS = {
    "clicks": World("clicks", 60_000, 300, 0),
    "sparse": World("sparse", 60_000, 300, 1),
    "costs": World("costs", 60_000, 300, 2),
    "null": World("null", 60_000, 300, 3),
    "k500": World("clicks", 10_000, 500, 4),
    "labels": World("labels", 2_000, 100, 5),
    **{f"slope{actions}": World("clicks", 60_000, actions, 6) for actions in (50, 100, 200, 400)},
}


def learn(world: World, folder: Path) -> dict:
    """Run ``drcrm learn`` on a log; return its time, its verdict and the true costs."""
    world.frame().to_parquet(folder / "log.parquet")
    (folder / "map.json").write_text(json.dumps(world.mapping))
    files = ["--config", "map.json", "--output", "p.npz", "--json", "answer.json", "--report", "report.html"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    used = measure(sys.executable, "-m", "drcrm", "learn", "log.parquet", *files, cwd=folder, env=environment)
    answer = json.loads((folder / "answer.json").read_text())
    policy, logging, best = world.true_costs(folder / "p.npz")
    return {
        "cpu": used["user"],
        "system": used["system"],
        "MB": used["resident MB"],
        "verdict": answer["verdict"]["verdict"],
        "kept": answer["kept"],
        "choices": answer["choices"],
        "policy": policy,
        "logging": logging,
        "best": best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", metavar="LOG", default=[*LOGS], help=f"by default all: {', '.join(LOGS)}")
    parser.add_argument("--rows", type=int, help="number of rows of every log")
    parser.add_argument("--actions", type=int, help="number of actions of every log")
    parser.add_argument("--json", type=Path, help="also write the results to a file")
    options, results = parser.parse_args(), {}
    for name in options.logs:
        world = LOGS[name]
        world = World(world.kind, options.rows or world.rows, options.actions or world.actions, world.seed)
        with tempfile.TemporaryDirectory() as folder:
            result = results[name] = learn(world, Path(folder))
        values = (f"{value:.4g}" if isinstance(value, float) else value for value in result.values())
        print(name, *(f"{key} {value}" for key, value in zip(result, values, strict=True)), sep="  ", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
