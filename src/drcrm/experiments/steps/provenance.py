"""Note what an experiment's results come from: the code, the packages, the machine and the configuration.

Reads   --config: JSON of the experiment, its data sets and its algorithms; the code in --project.
Writes  --output: JSON; of the configuration the experiment's options and a digest of the whole.

The commit is that of the git repository in --project, or of the archive that git made of it. A digest of the package's
files tells the code of a copy that has neither.
"""

import argparse
import hashlib
import json
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

import numpy  # noqa: F401  its BLAS is seen once it is loaded
import scipy.linalg  # noqa: F401  so is that of scipy
from threadpoolctl import threadpool_info

from drcrm.experiments.lookups import digest
from drcrm.experiments.steps import json_object, require
from drcrm.files import write_json

ARCHIVE = ".git_archival.txt"
PACKAGES = ("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite")
PACKAGES += ("pandas", "statsmodels", "matplotlib", "snakemake")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=json_object, required=True, metavar="JSON", help="as the workflow completes it"
    )
    parser.add_argument("--project", type=Path, required=True, help="folder of the code")
    parser.add_argument("--output", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    missing = {"experiment", "datasets", "algorithms"} - set(options.config)
    require(not missing, f"--config has no {', '.join(sorted(missing))}")
    changes = _git(options.project, "status", "--porcelain")
    known = {
        "commit": _git(options.project, "rev-parse", "HEAD") or _archived(options.project / ARCHIVE),
        "clean": None if changes is None else not changes,
        "source": _source(options.project / "src"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "config": digest(options.config),
        "options": options.config["experiment"],
        "blas": _blas(),
        "machine": platform.machine(),
    }
    write_json(options.output, known)


def _git(project: Path, *command: str) -> str | None:
    """What git says of the repository in a folder itself, not of one around it; None without git or a commit."""
    place = ["git", "--no-optional-locks", f"--git-dir={project / '.git'}", f"--work-tree={project}"]
    try:
        done = subprocess.run([*place, *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _archived(path: Path) -> str | None:
    """Return the commit that ``git archive`` wrote into a file; None in a checkout."""
    text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return text if re.fullmatch("[0-9a-f]{40,64}", text) else None


def _source(folder: Path) -> str | None:
    """Return the SHA-256 of the names and contents of Python and YAML files in a folder; None if there are none."""
    paths = sorted(path for suffix in ("py", "yaml") for path in folder.rglob(f"*.{suffix}"))
    listed = [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in paths]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest() if listed else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> list[dict[str, str | None]]:
    """The linear algebra libraries of numpy and scipy: results may differ from one to another in their last digits."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    keys = {"name": "internal_api", "version": "version", "architecture": "architecture"}
    described = [{name: library.get(key) for name, key in keys.items()} for library in libraries]
    return sorted({json.dumps(each): each for each in described}.values(), key=json.dumps)
