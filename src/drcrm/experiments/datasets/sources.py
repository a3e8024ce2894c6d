"""Where the files of a data set come from: a mirror or their own address, and the record of it beside them."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drcrm.errors import InputError
from drcrm.files import atomic, check_file_name

PATIENCE = 60  # seconds without a byte from a server

Record = dict[str, dict[str, str | None]]  # by file: from, a folder, an address or null, and sha256


@dataclass(frozen=True)
class Source:
    """Where the files of a data set come from: a mirror first (a folder or a URL), then their own URL.

    ``sha256`` holds the digests that are known, by file name.
    """

    url: str | None = None
    mirror: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    def fetch(self, name: str, folder: Path) -> tuple[Path, str | None]:
        """Return ``folder/name`` and the place it is fetched from; None where it is there and kept.

        A file is kept that has the digest that is known, or the content that a local mirror has; from afar nothing is
        fetched again. Raises InputError for a name that leads out of the folder, or if no place has the file or its
        digest is wrong, with what each place answered.
        """
        path = folder / check_file_name(name)
        expected = self.sha256.get(name) or self.mirrored(name)
        if path.exists() and expected in (None, file_digest(path)):
            return path, None
        failures = []
        for place in (self.mirror, self.url):
            if place:
                try:
                    self._fetch_from(place, name, folder)
                    return path, place if is_address(place) else os.path.abspath(place)
                except (OSError, ValueError) as error:
                    failures.append(f"{place}: {' '.join(str(error).split())}")
        raise InputError(f"{name}: could not be fetched: " + ("; ".join(failures) or "neither a mirror nor a url"))

    def mirrored(self, name: str) -> str | None:
        """The digest of a file in a mirror that is a folder; None where there is none that can be read."""
        if not self.mirror or is_address(self.mirror):
            return None
        try:
            return file_digest(Path(self.mirror) / name)
        except OSError:
            return None

    def _fetch_from(self, place: str, name: str, folder: Path) -> None:
        if (folder / name).is_symlink():
            (folder / name).unlink()  # a download must not replace a file outside of its folder
        with atomic(folder / name) as part:
            if is_address(place):
                import pooch

                download = pooch.create(
                    path=part.parent,
                    base_url=place.rstrip("/") + "/",
                    registry={name: self.sha256.get(name)},
                    retry_if_failed=2,
                )
                download.fetch(name, downloader=pooch.HTTPDownloader(progressbar=True, timeout=PATIENCE))
                return
            shutil.copyfile(Path(place) / name, part)
            digest = file_digest(part)
            if digest != self.sha256.get(name, digest):
                raise InputError(f"{name} has SHA-256 {digest}, expected {self.sha256[name]}")


def is_address(place: str) -> bool:
    """Whether a place is a URL, not a folder."""
    return "://" in place


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_record(path: str | Path) -> Record:
    """The record by file: ``from``, a folder, an address or null, and ``sha256``. Empty where none can be read."""
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: {key: entry[key] for key in ("from", "sha256")} for name, entry in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def origin_of(known: Mapping[str, str | None], place: str | None, digest: str, source: Source, name: str) -> dict:
    """What to record of a file with this digest: fetched from ``place``, or kept and known to the record."""
    if place is None and known.get("sha256") == digest:
        return dict(known)
    if place is None and source.mirrored(name) == digest:
        place = source.mirror
    return {"from": place, "sha256": digest}


def local_contents(source: Source, names: Sequence[str], record: Record) -> dict[str, str]:
    """The digests, by file, of what came or would come from a local mirror: where one changes, files are fetched again.

    They are those of the mirror, or of the record where the mirror is gone, elsewhere or lacks the file. A file from
    afar is not among them, unless a local mirror has another content; nor is one whose digest the configuration has.
    """
    local = {}
    for name in names:
        known = record.get(name, {})
        digest = source.mirrored(name) or known.get("sha256")
        afar = known and (known["from"] is None or is_address(known["from"]))
        if name not in source.sha256 and digest and not (afar and digest == known["sha256"]):
            local[name] = digest
    return local
