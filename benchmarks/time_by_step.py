"""Where an experiment's time went: python benchmarks/time_by_step.py results/EXPERIMENT [CORES]

Reads the benchmark files that Snakemake leaves beside the results of one uninterrupted run. Prints, for each step and
data set, the jobs and their seconds, and what of the cores' time passed outside jobs: Snakemake, starts, waiting.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

STEPS = ("split", "log_crf", "skyline", "replay", "evaluate")


def main(folder: Path, cores: int) -> None:
    rows = []
    for path in folder.rglob("benchmarks/*.tsv"):
        seconds = pd.read_csv(path, sep="\t")["s"].sum()
        parts = path.relative_to(folder).parts
        step = path.stem if path.stem in STEPS else "fit" if parts[0] == "runs" else "results"
        data = parts[1] if parts[0] == "runs" else ""
        end = path.stat().st_mtime
        rows.append({"step": step, "data": data, "seconds": seconds, "start": end - seconds, "end": end})
    if not rows:
        sys.exit(f"{folder}: no benchmark files of a run")
    jobs = pd.DataFrame(rows)
    table = jobs.groupby(["step", "data"])["seconds"].agg(["count", "sum"])
    available = cores * (jobs["end"].max() - jobs["start"].min())
    table["share"] = table["sum"] / available
    print(table.to_string(float_format="%.3f"))
    print(f"{available:.0f} s on {cores} cores, {1 - jobs['seconds'].sum() / available:.1%} of them outside jobs")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 2)
