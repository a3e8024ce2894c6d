"""python -m fuzz: run generated cases, and say for each kind of input how many were accepted, refused, and failed.

A failure is shown with the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter, time

from . import KINDS
from .harness import Hang, Kind

SHOWN = 3  # failures of one place that are shown


def draw(kind: Kind, seed: int, number: int) -> object:
    """The case of a kind with a number, whatever else is run."""
    return kind.make(Random(f"{kind.name}/{seed}/{number}"))


def place(error: BaseException) -> str:
    """Where an error comes from: its type, and the last line of the project's in its traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "drcrm" in frame.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    what = str(error).split(":")[0][:60] if isinstance(error, AssertionError) else ""
    return f"{type(error).__name__} {what} {Path(last.filename).name}:{last.lineno}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; by default all")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time()), help="by default the time")
    parser.add_argument("--case", type=int, help="run this one alone, with its traceback")
    options = parser.parse_args()
    kinds = [KINDS[name] for name in options.kinds or KINDS]
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yard = Path(folder).resolve()
        if options.case is not None:
            for kind in kinds:
                case = draw(kind, options.seed, options.case)
                print(kind.name, case)
                print("accepted" if kind.run(case, yard) else "refused")
            return 0
        print(f"seed {options.seed}")
        failed = Counter()
        for kind in kinds:
            cases = round(options.cases * kind.share / sum(each.share for each in kinds))
            failed += run(kind, cases, options.seed, yard)
    for where, times in failed.most_common():
        print(f"{times} × {where}")
    return 1 if failed else 0


def run(kind: Kind, cases: int, seed: int, yard: Path) -> Counter:
    """Run the cases of a kind; return how often each place failed."""
    began, slowest, accepted, failed = perf_counter(), 0.0, 0, Counter()
    for number in range(cases):
        at = perf_counter()
        try:
            accepted += kind.run(draw(kind, seed, number), yard)
        except (Exception, Hang) as error:
            where = f"{kind.name}: {place(error)}"
            failed[where] += 1
            if failed[where] <= SHOWN:
                text = " ".join(str(error).split())[:300]
                print(f"  python -m fuzz {kind.name} --seed {seed} --case {number}: {type(error).__name__}: {text}")
        slowest = max(slowest, perf_counter() - at)
    lost = failed.total()
    print(
        f"{kind.name}: {cases} cases in {perf_counter() - began:.0f} s, the slowest {slowest:.1f} s: "
        f"{accepted} accepted, {cases - accepted - lost} refused, {lost} failed",
        flush=True,
    )
    return failed


if __name__ == "__main__":
    sys.exit(main())
