"""Sources of results: files of data sets, fetched from a mirror or a URL, and digests of files and of code.

Snakemake runs a step again if a digest among its parameters changes.
"""

import ast
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.files import atomic, check_file_name

TIMEOUT = 60  # seconds without a byte from a server

Record = dict[str, dict[str, Any]]  # file name: {"from": folder, URL or null; "sha256": digest}


@dataclass(frozen=True)
class Source:
    """Places that have the files of a data set: first a mirror (a folder or a URL), then the original URL.

    ``sha256`` has the known digests by file name.
    """

    url: str | None = None
    mirror: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    def fetch(self, name: str, folder: Path) -> tuple[Path, str | None]:
        """Fetch a file, and return its path and the place that it came from, or None if an existing file was kept.

        An existing file is kept if its digest is the expected one or no digest is expected. The expected digest is the
        known one or, if there is none, that of the file in a local mirror.

        Raises
        ------
        InputError
            If the name leads out of the folder, or if no place has the file with the right digest. The message lists
            the answer of each place.
        """
        path = folder / check_file_name(name)
        expected = self.sha256.get(name) or self.mirror_digest(name)
        if path.exists() and expected in (None, file_digest(path)):
            return path, None
        failures = []
        for place in (self.mirror, self.url):
            if place:
                try:
                    self._fetch_from(place, name, folder)
                    return path, place if is_url(place) else os.path.abspath(place)
                except (OSError, ValueError) as error:
                    failures.append(f"{place}: {' '.join(str(error).split())}")
        answers = "; ".join(failures) or "no mirror and no url is configured"
        raise InputError(f"{name}: could not be fetched: {answers}. If you have the file, set mirror to its folder")

    def mirror_digest(self, name: str) -> str | None:
        """Return the digest of a file in a local mirror; None if the mirror is not local or lacks the file."""
        if not self.mirror or is_url(self.mirror):
            return None
        try:
            return file_digest(Path(self.mirror) / name)
        except OSError:
            return None

    def _fetch_from(self, place: str, name: str, folder: Path) -> None:
        if (folder / name).is_symlink():
            (folder / name).unlink()  # a download must not replace a file outside its folder
        with atomic(folder / name) as part:
            if is_url(place):
                import pooch

                download = pooch.create(
                    path=part.parent,
                    base_url=place.rstrip("/") + "/",
                    registry={name: self.sha256.get(name)},
                    retry_if_failed=2,
                )
                download.fetch(name, downloader=pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT))
                return
            shutil.copyfile(Path(place) / name, part)
            digest = file_digest(part)
            if digest != self.sha256.get(name, digest):
                raise InputError(f"{name} has SHA-256 {digest}, expected {self.sha256[name]}")


def is_table(path: str | Path, kind: str = "") -> bool:
    """Return whether a file is CSV, plain or compressed, or npz; with a ``kind``, .csv or .npz, whether it is this."""
    return not {kind or ".csv", kind or ".npz"}.isdisjoint(Path(path).suffixes)


def local_files(entry: Mapping) -> list[str]:
    """Return the local files of a data set."""
    return [entry[key] for key in ("path", "test_path") if key in entry]


def is_url(place: str) -> bool:
    """Return whether a place is a URL, not a folder."""
    return "://" in place


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_record(path: str | Path) -> Record:
    """Return the record of each file; empty if the record cannot be read."""
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: {key: entry[key] for key in ("from", "sha256")} for name, entry in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def origin_of(known: Mapping[str, Any], place: str | None, digest: str, source: Source, name: str) -> dict[str, Any]:
    """Return the record of a file. A kept file (``place`` is None) keeps its ``known`` record if digests agree."""
    if place is None and known.get("sha256") == digest:
        return dict(known)
    if place is None and source.mirror_digest(name) == digest:
        place = source.mirror
    return {"from": place, "sha256": digest}


def local_digests(source: Source, names: Sequence[str], record: Record) -> dict[str, str]:
    """Return the digests of files from a local mirror. If a digest changes, the files must be fetched again.

    A digest comes from the mirror or, if the mirror lacks the file, from the record. The result leaves out files whose
    digest is in the configuration. It also leaves out a file whose recorded origin is a URL or unknown, unless the
    mirror has other content.
    """
    digests = {}
    for name in names:
        known = record.get(name, {})
        digest = source.mirror_digest(name) or known.get("sha256")
        is_remote = known and (known["from"] is None or is_url(known["from"]))
        if name not in source.sha256 and digest and not (is_remote and digest == known["sha256"]):
            digests[name] = digest
    return digests


@cache
def source_digest(path: Path) -> str:
    """Return a digest of a file. Comments and docstrings of Python code do not change it."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@cache
def code_digest(folder: Path, *left_out: str) -> str:
    """Return a digest of the names and the code of all files in a folder, except in the folders ``left_out``."""
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("[!.]*.*")) if path.suffix != ".pyc"
    }
    outside = tuple(f"{part}/" for part in left_out)
    versions = [(name, source_digest(path)) for name, path in files.items() if not name.startswith(outside)]
    return hashlib.sha256(str(versions).encode()).hexdigest()[:16]
