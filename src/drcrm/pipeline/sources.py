"""Where the files of a data set come from: a mirror, or their own address."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError
from .files import atomic
from .names import check_file_name

PATIENCE = 60  # seconds without a byte from a server


@dataclass(frozen=True)
class Source:
    """Where the files of a data set come from: a mirror first (a folder or a URL), then their own URL.

    ``sha256`` holds the digests that are known, by file name.
    """

    url: str | None = None
    mirror: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    def fetch(self, name: str, folder: Path) -> Path:
        """Return ``folder/name``, fetched unless it is there with the right digest.

        Raises InputError for a name that leads out of the folder, or if no place has the file or its digest is wrong,
        with what each place answered.
        """
        path = folder / check_file_name(name)
        if path.exists() and self._is_right(path):
            return path
        failures = []
        for place in (self.mirror, self.url):
            if place:
                try:
                    self._fetch_from(place, name, folder)
                    return path
                except (OSError, ValueError) as error:
                    failures.append(f"{place}: {' '.join(str(error).split())}")
        raise InputError(f"{name}: could not be fetched: " + ("; ".join(failures) or "neither a mirror nor a url"))

    def _is_right(self, path: Path) -> bool:
        return path.name not in self.sha256 or _digest(path) == self.sha256[path.name]

    def _fetch_from(self, place: str, name: str, folder: Path) -> None:
        with atomic(folder / name) as part:
            if "://" in place:
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
            if not self._is_right(part):
                raise InputError(f"{name} has SHA-256 {_digest(part)}, expected {self.sha256[name]}")


def _digest(path: Path) -> str:
    import pooch

    return pooch.file_hash(str(path))
