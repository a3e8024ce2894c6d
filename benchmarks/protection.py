"""Faults planted in src/drcrm one at a time, and the test that finds each: python benchmarks/protection.py [FOLDER]

Prints a Markdown table. A project, by default this one, is copied; a fault is put where its text stands, which must be
in one place of one file, whichever. The tests of that module and of its room run first, then the rest of `make test`.
``none`` is no fault at all.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

PROJECT = Path(__file__).resolve().parents[1]

# What is wrong: the text as it is, and as it is with the fault.
FAULTS = {
    "none": ("", ""),
    "weights: a clipped one has a slope": ("slope[clipped] = 0", "slope[clipped] = 1"),
    "risks: POEM's variance by n, not n − 1": ("np.sqrt(variance / (n - 1))", "np.sqrt(variance / n)"),
    "risks: the quantile of both sides in a radius": ("ndtri(confidence) ** 2", "ndtri((1 + confidence) / 2) ** 2"),
    "KL search: a sign in the fourth cumulant": ("@ centred - 3 * second**2", "@ centred + 3 * second**2"),
    "χ² ball: a share of the radius is lost": ("(mass - 1) * (1 + radius)", "(mass - 1)"),
    "estimates: the sign of the residual": ("self.residual = cost - modelled", "self.residual = cost + modelled"),
    "cost model: the mean is not taken off": ("gram -= np.outer(mean, mean)", "gram -= 0"),
    "starts: tilted the wrong way": ("base - tilt * design.log", "base + tilt * design.log"),
    "starts: another automatic tilt": ("EFFECTIVE = 1 / 3", "EFFECTIVE = 1 / 2"),
    "bounds: Bernstein's n, not n − 1": ("log_term / (3 * (n - 1))", "log_term / (3 * n)"),
    "certificates: the level of a single choice": (" / choices", " / 1"),
    "scores: of equal ones the least robust": ('(max if robust_end == "high"', '(min if robust_end == "high"'),
    "log: a propensity of 0 is taken": ("(self.propensity <= 0)", "(self.propensity < 0)"),
    "split: shares are rounded down": ("math.ceil(fraction * n - 1e-9)", "math.floor(fraction * n + 1e-9)"),
    "losses: right for wrong": ("(labels == 1, 1 - marginals, marginals)", "(labels == 1, marginals, 1 - marginals)"),
    "config: defaults in place of what is given": ("value.setdefault(key, deepcopy(", "value.__setitem__(key, ("),
    "tables: an interval of one side": ("stats.t.ppf((1 + confidence) / 2, n - 1)", "stats.t.ppf(confidence, n - 1)"),
    "tables: not Holm's adjustment": ('method="holm"', 'method="fdr_bh"'),
    "locks: one that is alone is not": ("fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB"),
    "files: written in place": ("part = Path(folder) / path.name", "part = path"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PROJECT)
    parser.add_argument(
        "--fault", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT", help="by default all"
    )
    parser.add_argument("--pytest", default="", help="more arguments of pytest")
    options = parser.parse_args()
    places = {name: place(options.folder / "src", FAULTS[name][0]) for name in options.fault if name != "none"}
    print("| fault | found by | after |\n|---|---|---|")
    survived = 0
    for name in options.fault:
        began = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            project = copy(options.folder, Path(folder) / "project")
            if name in places:
                path = project / "src" / places[name]
                path.write_text(path.read_text(encoding="utf-8").replace(*FAULTS[name]), encoding="utf-8")
            test = first_failure(project, places.get(name), shlex.split(options.pytest))
        survived += test is None and name != "none"
        print(f"| {name} | {test or '–'} | {perf_counter() - began:.0f} s |", flush=True)
    print(f"\n{len(places) - survived} of {len(places)} are found")
    return 1 if survived else 0


def place(source: Path, text: str) -> Path:
    """The file under a folder in which a text stands, once."""
    counts = {path.relative_to(source): path.read_text(encoding="utf-8").count(text) for path in source.rglob("*.py")}
    if sum(counts.values()) != 1:
        sys.exit(f"{text!r} stands {sum(counts.values())} times under {source}, not once")
    return max(counts, key=counts.get)


def copy(project: Path, to: Path) -> Path:
    """Copy a project as it stands, without what git ignores."""
    listed = ["git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.strip("\0").split("\0"):
        if (project / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, to / name)
    return to


def first_failure(project: Path, module: Path | None, arguments: list[str]) -> str | None:
    """The first test that fails: of a module src/drcrm/ROOM/MODULE.py those of tests/ROOM/test_MODULE.py run first."""
    done: list[Path] = []
    tests = project / "tests"
    room = tests / module.parent.name if module else tests
    of_room = [room / f"test_{module.name}", tests / f"test_{module.name}", room] if module else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": f"{project}/src", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for part in filter(Path.exists, [*of_room, tests]):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            *arguments,
            str(part),
        ]
        command += [f"--ignore={each}" for each in done]
        run = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 5):  # 5: there are no tests
            failed = re.findall(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
            return failed[0] if failed else sys.exit(run.stdout + run.stderr)
        done.append(part)
    return None


if __name__ == "__main__":
    sys.exit(main())
