"""What the measurements beside an experiment share: its finished runs, and tables that are measured set by set."""

from __future__ import annotations

import os
import sys
import time

# Before numpy is imported: one thread, as the pipeline's jobs have.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from drcrm.core.cost_model import CostModel
from drcrm.core.log import BanditLog
from drcrm.core.policies import ExponentialPolicy
from drcrm.pipeline.files import write_csv
from drcrm.pipeline.formats import read_contexts, read_log, read_policy
from drcrm.pipeline.steps.cost_model import read_cost_model
from drcrm.simulation.losses import expected_hamming

REPLAYS = 4


@dataclass(frozen=True)
class Run:
    """A log with what its fits need, and the test set that judges them; ``folder`` has the fits that were made."""

    dataset: str
    seed: int
    folder: Path
    train: BanditLog
    heldout: BanditLog
    logging: ExponentialPolicy
    model: CostModel
    X: object
    labels: np.ndarray

    def loss(self, coef: np.ndarray) -> float:
        """Return the expected Hamming loss on the test set of the policy with Θ, (d, q)."""
        return expected_hamming(ExponentialPolicy(coef), self.X, self.labels)


def finished(folder: Path, resources: Path, seeds: Mapping[str, int], needed: Sequence[str] = ()) -> Iterator[Run]:
    """Read the first runs of each data set that have a log, a cost model and the ``needed`` files beside it."""
    for dataset, most in seeds.items():
        logs = (folder / dataset).glob(f"seed*/replay{REPLAYS}/log.npz")
        numbers = {int(log.parts[-3].removeprefix("seed")): log.parent for log in logs}
        names = ("cost_model.npz", *needed)
        found = [seed for seed in sorted(numbers) if all((numbers[seed] / name).exists() for name in names)]
        for seed in found[:most]:
            at = numbers[seed]
            yield Run(
                dataset,
                seed,
                at,
                *read_log(at / "log.npz"),
                read_policy(at.parent / "logging.npz"),
                read_cost_model(at / "cost_model.npz"),
                *read_contexts(resources / dataset / "test.npz"),
            )


def measure(
    arguments: Sequence[str],
    output: Path,
    rows_of: Callable[[Run], Iterable[dict]],
    most: Mapping[str, int],
    needed: Sequence[str] = (),
) -> pd.DataFrame:
    """Write the rows of the finished runs that a command's arguments name, RUNS RESOURCES [SET …]; return all of them.

    ``most`` says how many runs of a data set are measured at most; rows of sets that are not named stay as they are.
    """
    folder, resources, *datasets = arguments
    seeds = {dataset: most[dataset] for dataset in datasets or most}
    rows = []
    for run in finished(Path(folder), Path(resources), seeds, needed):
        start = time.perf_counter()
        rows += rows_of(run)
        print(f"{run.dataset}, seed {run.seed}: {time.perf_counter() - start:.0f} s", flush=True)
    if not rows:
        sys.exit(f"{folder}: no finished runs of {', '.join(seeds)}")
    return replace_rows(output, pd.DataFrame(rows))


def algorithms() -> dict[str, dict]:
    """The algorithms of config.yaml."""
    return yaml.safe_load(Path("config.yaml").read_text(encoding="utf-8"))["algorithms"]


def replace_rows(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Put rows into a csv in place of those it has of the same data sets; return all of it."""
    if path.exists():
        old = pd.read_csv(path)
        rows = pd.concat([old[~old["dataset"].isin(rows["dataset"])], rows], ignore_index=True)
    write_csv(path, list(rows.columns), rows.to_dict("records"))
    return rows
