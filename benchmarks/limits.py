"""Where algorithms stop being trustworthy: python benchmarks/limits.py RUNS RESOURCES [SEEDS]

The finished runs of `beyond` on Scene and Yeast (RUNS is its folder `runs`, RESOURCES has the data sets), with one
thing about the log changed at a time. The logged actions stay as they are; fits are made and chosen as in `beyond`,
along the grids of config.yaml, by clipped SNIPS on the changed held-out part.

    as logged      nothing is changed
    whole vector   the cost is 0/1: whether any label is wrong
    wrong pairs    the cost is the number of wrong labels, plus q/(q − 1) for each pair of neighbouring labels that are
                   both wrong: pairs cost as much as labels where all is wrong
    power          propensities to the power 0.9
    noise ½, 1     propensities times e^{N(0, s)}, s a standard deviation, at most 1; one factor for each distinct row
    no π0          the start tilts an imitation of the log; propensities are known
    imitated p     the propensities are those of that imitation too

Costs are translated to be at most 0, as the pipeline does. Losses of policies are exact: labels are independent under
them. Writes docs/results/limits.csv, a row for each log, seed and algorithm: the loss that the costs are (`own`), what
was chosen, what held-out scores promise of it, and all three losses on the test part, expected and of the most probable
actions. Prints means ± standard errors, and paired differences to what the log as logged gives by the same loss.
"""

from __future__ import annotations

import os

# Before numpy is imported: one thread, as the pipeline's jobs have.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from drcrm.core.cost_model import CostModel
from drcrm.core.log import BanditLog
from drcrm.core.policies import ExponentialPolicy
from drcrm.core.scores import SCORES
from drcrm.core.selection import fit_grid
from drcrm.core.starts import imitation
from drcrm.core.terms import begin
from drcrm.pipeline.files import atomic, read_npz
from drcrm.pipeline.formats import read_contexts, read_policy
from drcrm.pipeline.steps import generator
from drcrm.registry import LOGGING, SKYLINE, find_estimator
from drcrm.report.comparisons import interval

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs/results/limits.csv"
DATASETS = "scene", "yeast"
WITHOUT_MODEL = "kl_dro_snips_logging"  # kl_dro_snips from π0 itself: no cost model has a part in it
ALGORITHMS = "cips", "kl_dro", WITHOUT_MODEL, "snips", "kl_dro_snips", "dm", "dr", "kl_dro_dr"
FROM_ZERO = "cips", "kl_dro"  # they do not need π0
SELECTION = "clipped_snips"


def hamming(wrong: np.ndarray) -> np.ndarray:
    """The wrong labels, of how likely each is wrong, (n, q)."""
    return wrong.sum(axis=1)


def whole_vector(wrong: np.ndarray) -> np.ndarray:
    return 1 - (1 - wrong).prod(axis=1)


def pairs(wrong: np.ndarray) -> np.ndarray:
    q = wrong.shape[1]
    return wrong.sum(axis=1) + q / (q - 1) * (wrong[:, 1:] * wrong[:, :-1]).sum(axis=1)


LOSSES = {"hamming": hamming, "whole_vector": whole_vector, "pairs": pairs}


@dataclass(frozen=True)
class Log:
    """The training and the held-out part of a log, π0 where it is known, and the loss that its costs are."""

    train: BanditLog
    heldout: BanditLog
    logging_policy: ExponentialPolicy | None
    loss: str = "hamming"


def logs(run: Path, labels: np.ndarray, seed: int) -> Iterator[tuple[str, Log]]:
    """The log of a run, and what is made of it."""
    arrays = read_npz(run / "replay4/log.npz", ["X", "Y", "propensity", "cost", "context", "train", "heldout"])
    parts = arrays.pop("train"), arrays.pop("heldout")
    policy = read_policy(run / "logging.npz")
    rng = generator("limits", seed, "noise")

    def changed(logging_policy: ExponentialPolicy | None = policy, loss: str = "hamming", **changes) -> Log:
        log = BanditLog(**{**arrays, **changes})
        return Log(*map(log.recount, parts), logging_policy, loss)

    def of(loss: str) -> Log:
        wrong = arrays["Y"] != labels[arrays["context"]]
        worst = LOSSES[loss](np.ones((1, wrong.shape[1])))
        return changed(loss=loss, cost=LOSSES[loss](wrong.astype(float)) - worst)

    p = arrays["propensity"]
    yield "as logged", changed()
    yield "whole vector", of("whole_vector")
    yield "wrong pairs", of("pairs")
    yield "power", changed(propensity=p**0.9)
    for name, deviation in {"noise ½": 0.5, "noise 1": 1.0}.items():
        yield name, changed(propensity=np.minimum(p * np.exp(deviation * rng.normal(size=len(p))), 1))
    yield "no π0", changed(None)
    imitated = ExponentialPolicy(imitation(changed().train))
    log_prob = imitated.log_prob(arrays["X"], arrays["Y"], arrays["context"])
    yield "imitated p", changed(imitated, propensity=np.exp(log_prob))


def learned(algorithm: dict, log: Log, cost_model: CostModel) -> tuple[ExponentialPolicy, dict[str, float]]:
    """The policy that the held-out score chooses along an algorithm's grid, and what it has and promises."""
    estimator, parameter = find_estimator(algorithm["estimator"]), algorithm.get("parameter")
    options, grid = algorithm.get("options", {}), algorithm.get("grid", [])
    terms = estimator.along(parameter, grid, options)
    start = options.get("start", "zero"), options.get("tilt", 1.0)
    beginning = begin(log.train, terms[0].estimate, *start, log.logging_policy, cost_model)
    end = estimator.robust_end(parameter, options)
    fits = fit_grid(log.train, log.heldout, terms, grid or [np.nan], end, beginning, cost_model)
    chosen = int(fits.chosen[SCORES.index(SELECTION)]) if grid else 0
    promised = {name: round(float(fits.scores[chosen, SCORES.index(name)]), 6) for name in (SELECTION, "snips_bound")}
    about = {"hyperparameter": fits.grid[chosen], "tilt": fits.tilt[0], "penalty": cost_model.penalty_, **promised}
    return ExponentialPolicy(fits.coef[chosen]), about


def losses(policy: ExponentialPolicy, X, labels: np.ndarray) -> dict[str, float]:
    """The mean losses of a policy, expected and of its most probable actions."""
    wrong = np.abs(policy.marginals(X) - labels), (policy.greedy(X) != labels).astype(float)
    return {
        f"{kind}_{name}": round(float(loss(each).mean()), 6)
        for kind, each in zip(("expected", "greedy"), wrong, strict=True)
        for name, loss in LOSSES.items()
    }


def rows(runs: Path, resources: Path, dataset: str, seed: int) -> Iterator[dict]:
    """What is learned from the logs of a run, a row each; π0 and full supervision stand beside the unchanged log."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["algorithms"]
    without = config["kl_dro_snips"]
    config[WITHOUT_MODEL] = {**without, "options": {**without["options"], "start": "logging"}}
    run = runs / dataset / f"seed{seed}"
    test = read_contexts(resources / dataset / "test.npz")
    _, labels = read_contexts(resources / dataset / "train.npz")
    key = {"dataset": dataset, "seed": seed}
    for role in (LOGGING, SKYLINE):
        yield {**key, "log": "as logged", "algorithm": role, **losses(read_policy(run / f"{role}.npz"), *test)}
    for name, log in logs(run, labels, seed):
        cost_model = CostModel().fit_log(log.train)
        for algorithm in ALGORITHMS:
            if name == "no π0" and algorithm in (*FROM_ZERO, WITHOUT_MODEL):
                continue
            policy, about = learned(config[algorithm], log, cost_model)
            yield {**key, "log": name, "own": log.loss, "algorithm": algorithm, **about, **losses(policy, *test)}


def printed(values: pd.Series) -> str:
    of = interval(values)
    return f"{of.mean:.3f} ± {of.standard_error:.3f}"


def table(found: pd.DataFrame, dataset: str, log: str, kind: str) -> pd.DataFrame:
    """Means by the loss that a log's costs are, and differences to what the unchanged log gives by it."""
    of = found[found["dataset"] == dataset]
    changed, as_logged = of[of["log"] == log], of[of["log"] == "as logged"]
    loss = f"{kind}_{changed['own'].dropna().iloc[0]}"
    values, before = (each.pivot(index="seed", columns="algorithm", values=loss) for each in (changed, as_logged))
    lines = {}
    for algorithm in [each for each in ALGORITHMS if each in values]:
        columns = {loss: values[algorithm], "difference": values[algorithm] - before[algorithm]}
        lines[algorithm] = {name: printed(column) for name, column in columns.items()}
    for role in (LOGGING, SKYLINE):
        lines[role] = {loss: printed(before[role])}
    return pd.DataFrame.from_dict(lines, orient="index").fillna("")


def main(runs: Path, resources: Path, seeds: int) -> None:
    found = pd.DataFrame(
        row for dataset in DATASETS for seed in range(seeds) for row in rows(runs, resources, dataset, seed)
    )
    with atomic(OUTPUT) as part:
        found.to_csv(part, index=False)
    for dataset in DATASETS:
        for log in found["log"].unique():
            both = [table(found, dataset, log, kind) for kind in ("expected", "greedy")]
            print(f"\n{dataset}, {log}\n{pd.concat(both, axis=1).to_string()}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) == 4 else 10)
