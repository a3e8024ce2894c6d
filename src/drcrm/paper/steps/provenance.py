"""Record the code, packages, machine and configuration that produced an experiment's results."""

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  loads its BLAS library, so that threadpool_info lists it
import scipy.linalg  # noqa: F401  loads another BLAS library
from threadpoolctl import threadpool_info

from drcrm.files import write_json

ARCHIVE = ".git_archival.txt"
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite"),
    *("pandas", "matplotlib", "snakemake"),
)


def provenance(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write ``provenance``: JSON with the experiment's options and a digest of its whole configuration.

    ``project`` is the folder of the code. ``settings`` is the configuration of the experiment, its
    data sets and its algorithms. The commit comes from the git repository in the folder, or from a file that
    ``git archive`` writes. ``changed`` has the tracked files that differ from the commit. The digest of the source
    files identifies the code if the folder has neither.
    """
    project = Path(files["project"])
    status = _git(project, "status", "--porcelain")
    lines = None if status is None else status.splitlines()
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    record = {
        "commit": _git(project, "rev-parse", "HEAD") or _archived(project / ARCHIVE),
        "clean": None if lines is None else not lines,
        "changed": None if lines is None else [line[3:] for line in lines if line[:2] != "??"],
        "untracked": None if lines is None else [line[3:] for line in lines if line[:2] == "??"],
        "source": _source(project / "src"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "config": hashlib.sha256(canonical.encode()).hexdigest(),
        "options": settings["experiment"],
        "blas": _blas(),
        "machine": platform.machine(),
    }
    write_json(files["provenance"], record)


def _git(project: Path, *command: str) -> str | None:
    """Return the output of git for the repository in this folder, not in a parent; None without git or a commit."""
    place = ["git", "--no-optional-locks", f"--git-dir={project / '.git'}", f"--work-tree={project}"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run([*place, *command], capture_output=True, text=True, check=True).stdout.rstrip()
    return None


def _archived(path: Path) -> str | None:
    """Return the commit that ``git archive`` wrote into a file; None in a checkout."""
    text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return text if re.fullmatch("[0-9a-f]{40,64}", text) else None


def _source(folder: Path) -> str | None:
    """Return the SHA-256 of the names and contents of Python and YAML files in a folder; None if there are none."""
    paths = sorted(path for suffix in ("py", "yaml") for path in folder.rglob(f"*.{suffix}"))
    digests = [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in paths]
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest() if digests else None


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _blas() -> list[dict[str, str | None]]:
    """Return the BLAS libraries of numpy and scipy. The last digits of results may depend on them."""
    keys = {"name": "internal_api", "version": "version", "architecture": "architecture"}
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    described = [{name: library.get(key) for name, key in keys.items()} for library in libraries]
    return sorted({json.dumps(entry): entry for entry in described}.values(), key=json.dumps)
