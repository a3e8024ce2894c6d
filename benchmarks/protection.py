"""Plant each fault of faults.py in src and find the test that catches it: python benchmarks/protection.py [FOLDER]

FOLDER is a project, by default this one. The script copies it for each fault, replaces the text of the fault, and runs
the tests until the first failure: first those of the module and of its package, then the rest of ``make test``. The
test that fails must pass once the fault is removed. The script prints a Markdown table. ``--check`` only checks that
each text occurs once and that the faulty file compiles.
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

from faults import FAULTS

PROJECT = Path(__file__).resolve().parents[1]
NO_TESTS = 5  # pytest's exit status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PROJECT)
    parser.add_argument("--check", action="store_true", help="only check that the faults can be planted")
    parser.add_argument(
        "--fault", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT", help="default: all"
    )
    parser.add_argument("--pytest", default="", help="more arguments of pytest")
    options = parser.parse_args()
    modules, problems = find_modules(options.folder / "src", options.fault)
    if problems or options.check:
        print("\n".join(problems) or f"{len(modules)} faults, each in one place")
        return bool(problems)
    print("| fault | caught by | after |\n|---|---|---|")
    caught = 0
    for fault in modules:
        start = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            project = copy_project(options.folder, Path(folder) / "project")
            plant(fault, project / "src" / modules[fault])
            test = first_failure(project, modules[fault], shlex.split(options.pytest))
            shutil.copy2(options.folder / "src" / modules[fault], project / "src" / modules[fault])
            if test and fails(project, test):
                sys.exit(f"{test} fails without a fault, too")
        caught += test is not None
        print(f"| {fault} | {test or '–'} | {perf_counter() - start:.0f} s |", flush=True)
    print(f"\n{caught} of {len(modules)} are caught")
    return int(caught < len(modules))


def find_modules(source: Path, faults: list[str]) -> tuple[dict[str, Path], list[str]]:
    """Return the module of each fault, relative to a source folder, and a line per fault that cannot be planted."""
    sources = {path: path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    modules, problems = {}, []
    for fault in faults:
        text, faulty = FAULTS[fault]
        counts = {path: content.count(text) for path, content in sources.items() if text in content}
        if sum(counts.values()) != 1:
            problems.append(f"{fault}: the text must occur once in {source}, found {sum(counts.values())}: {text!r}")
            continue
        [path] = counts
        modules[fault] = path.relative_to(source)
        try:
            compile(sources[path].replace(text, faulty), str(path), "exec")
        except SyntaxError as error:
            problems.append(f"{fault}: {error}")
    return modules, problems


def plant(fault: str, path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(*FAULTS[fault]), encoding="utf-8")


def copy_project(project: Path, target: Path) -> Path:
    """Copy a project without the files that git ignores, as a repository: some tests read the list of its files."""
    command = ["git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip("\0").split("\0"):
        if (project / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, target / name)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", "-C", str(target), *command], check=True)
    return target


def first_failure(project: Path, module: Path, arguments: list[str]) -> str | None:
    """Return the first test that fails, or None; tests of the module and of its packages run first."""
    tests, done = project / "tests", []
    packages = [tests / folder for folder in module.relative_to("drcrm").parents]
    nearest = [package / f"test_{module.name}" for package in packages] + packages[:-1]
    for part in filter(Path.exists, [*nearest, tests]):
        run = run_tests(project, "-m", "not slow", *arguments, str(part), *(f"--ignore={path}" for path in done))
        if run.returncode not in (0, NO_TESTS):
            failed = re.findall(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
            return failed[0] if failed else sys.exit(run.stdout + run.stderr)
        done.append(part)
    return None


def fails(project: Path, test: str) -> bool:
    """Return whether a test function or file fails in a project, or cannot be collected."""
    file, _, name = test.partition("::")
    run = run_tests(project, f"tests/{file}", "-k", re.split(r"\W", name.split("::")[-1])[0])
    return run.returncode not in (0, NO_TESTS)


def run_tests(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the source of a project until the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": f"{project}/src", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
