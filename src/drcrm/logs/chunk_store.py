"""A folder with the rows of a log that is too large for memory, in chunks, read from its files once.

Each chunk is an npz file that is written whole or not at all. A reading that was cut short goes on behind the last one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..data.listeners import advance
from ..errors import InputError, located
from ..files import read_npz, write_json, write_npz
from ..locks import alone
from ..version import __version__
from . import chunks as reading
from .chunks import Place, chunks, files_of
from .joining import added, names_of
from .mapping import LogMapping, as_mapping
from .marks import marks
from .named import Lists, Named
from .records import Records
from .tables import Table, code_name, number_name

LAYOUT = 3  # of the files in the folder
LEARNING = "algorithm", "split", "cost_range"  # what of a mapping reading does not depend on
LOG, LOCK, ROWS = "log.json", "lock", "X.rows"
MADE = ROWS, "X.columns", "made-*.rows", "made-*.columns", "chunk-*.npz", ".part-*"  # of the log's rows
OWN = LOG, LOCK, *MADE
VECTORS = "action", "cost", "propensity", "rows", "groups", "candidate", "count", "time"  # of Records, as they are
DATA = {each.__name__: each for each in (Table, Named, Lists)}


class ChunkStore:
    """The rows of a log in a folder: ``store[k]`` are those of a chunk.

    Parameters
    ----------
    folder : Path
        That has nothing else; what it has of another log, or of this one before it was changed, is written over.
    path : Path
        Of the log, a file or a folder.
    mapping : LogMapping
    """

    def __init__(self, folder: Path, path: Path, mapping: LogMapping):
        self.folder, self._path, self._mapping, self._headers = folder, path, mapping, []

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, number: int) -> Records:
        header = self._headers[number]
        arrays, mapping = self._read(number, header["arrays"]), self.mapping
        slices = None if mapping.slice is None else np.array(header["slices"], dtype=object)[arrays["slices"]]
        return Records(
            format=header["format"],
            mapping=mapping,
            kind=header["kind"],
            names=header["names"],
            data=DATA[header["data"]].restored(arrays, header["said"]),
            reward=header["reward"],
            context=np.arange(header["size"]),
            skipped=header["skipped"],
            missing=header["missing"],
            slices=slices,
            **{name: arrays.get(name) for name in VECTORS},
        )

    @property
    def path(self) -> Path:
        """Of the log."""
        return self._path

    @property
    def mapping(self) -> LogMapping:
        """What the columns are, as their files say it, and how the log is learned from, as it was given."""
        columns = as_mapping(self._headers[0]["mapping"])
        return replace(columns, **{key: getattr(self._mapping, key) for key in LEARNING})

    @property
    def sizes(self) -> list[int]:
        """How many rows each chunk has."""
        return [each["size"] for each in self._headers]

    @property
    def size(self) -> int:
        """n."""
        return sum(self.sizes)

    @property
    def costs(self) -> tuple[float, float]:
        """The least and the largest cost."""
        least, most = zip(*(each["costs"] for each in self._headers), strict=True)
        return min(least), max(most)

    @property
    def names(self) -> list:
        """The names of all actions, or labels."""
        return names_of(self.mapping, self._headers[0]["format"], (each["names"] for each in self._headers), self.size)

    @property
    def skipped(self) -> dict[str, int]:
        """How many rows were not read, by reason."""
        return added(each["skipped"] for each in self._headers)

    @property
    def missing(self) -> dict[str, int]:
        """How many values are missing, by feature column."""
        return added(each["missing"] for each in self._headers)

    def vector(self, name: str) -> np.ndarray | None:
        """Return an array (…, n) of all rows; None where they have none."""
        if name not in self._headers[0]["arrays"]:
            return None
        found, at = None, 0
        for number, size in enumerate(self.sizes):
            some = self._read(number, [name])[name]
            found = np.empty((*some.shape[:-1], self.size), some.dtype) if found is None else found
            found[..., at : at + size] = some
            at += size
        return found

    def column(self, name: str) -> np.ndarray:
        """Return a numeric column, (n,)."""
        return self.vector(number_name(self.mapping.numeric.index(name)))

    def seen(self, name: str, rows: np.ndarray) -> Iterator[list[str]]:
        """Give the values that a categorical column has in some rows, by a mask (n,), of one chunk after the other."""
        array, end = code_name(list(self._headers[0]["said"]["values"]).index(name)), 0
        for number, header in enumerate(self._headers):
            end += header["size"]
            codes = self._read(number, [array])[array][rows[end - header["size"] : end]]
            yield [header["said"]["values"][name][code] for code in np.unique(codes)]

    def fill(self) -> None:
        """Read the rows of the log that the folder does not have yet."""
        self._headers = self._found()
        if self._headers and self._headers[-1].get("is_last"):
            return
        start = Place(*self._headers[-1]["next"]) if self._headers else None
        waiting = None
        for chunk in chunks(self._path, self._mapping, reading.ROWS, start):
            advance(chunk.records.size, "rows")
            if waiting:
                self._write(*waiting, is_last=False)
            waiting = chunk
        if waiting:
            self._write(*waiting, is_last=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, the folder is there, and of this process alone. It is left as it is by anything but an InputError."""
        if self._path.resolve() in self.folder.resolve().parents:
            raise InputError(f"{self.folder} is in the folder of the log, expected one beside it")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._require_own()
        with alone(str(self.folder / LOCK)) as is_alone:
            if not is_alone:
                raise InputError(f"{self.folder} is in use by another process")
            if self._log() != self._identity():
                self._clear()
                write_json(self.folder / LOG, self._identity())
            try:
                yield
            except InputError:
                self.remove()
                raise

    def remove(self) -> None:
        """Remove what is in the folder of the log; and the folder, where nothing was put beside it."""
        self._clear()
        for name in (LOG, LOCK):
            (self.folder / name).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _clear(self) -> None:
        """Remove all but the log's name and the lock: a folder without a name is nobody's."""
        for pattern in MADE:
            for each in self.folder.glob(pattern):
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()

    def _require_own(self) -> None:
        others = [each.name for each in self.folder.iterdir() if not any(each.match(name) for name in OWN)]
        if others or (self._log() is None and any(self.folder.glob("chunk-*"))):
            shown = f" such as {others[0]!r}" if others else ""
            raise InputError(f"{self.folder} has files of others{shown}, expected a folder that is empty, or new")

    def _log(self) -> object:
        """What the folder says that it has; None where it says nothing."""
        try:
            return json.loads((self.folder / LOG).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def _identity(self) -> dict:
        with located(self._path):
            files = [(str(each.resolve()), each.stat()) for each in files_of(self._path)]
        return {
            "layout": LAYOUT,
            "version": __version__,
            "files": [[path, stat.st_size, stat.st_mtime_ns] for path, stat in files],
            "mapping": _columns(self._mapping),
            "rows": reading.ROWS,
        }

    def _at(self, number: int) -> Path:
        return self.folder / f"chunk-{number:06d}.npz"

    def _found(self) -> list[dict]:
        """The headers of the chunks that are there, as far as they can be read."""
        found = []
        while (path := self._at(len(found))).exists():
            try:
                found.append(json.loads(read_npz(path, ["header"])["header"].tobytes()))
            except (InputError, ValueError):
                break
        return found

    def _read(self, number: int, names: list[str]) -> dict[str, np.ndarray]:
        return read_npz(self._at(number), names)

    def _write(self, records: Records, place: Place, is_last: bool) -> None:
        of_data, said = records.data.stored()
        header = {
            "format": records.format,
            "mapping": _columns(records.mapping),
            "kind": records.kind,
            "reward": records.reward,
            "names": records.names,
            "data": type(records.data).__name__,
            "said": said,
            "skipped": records.skipped,
            "missing": records.missing,
            "size": records.size,
            "costs": [float(records.cost.min()), float(records.cost.max())],
            "next": place,
            "is_last": is_last,
        }
        arrays = {name: getattr(records, name) for name in VECTORS if getattr(records, name) is not None} | of_data
        if records.slices is not None:
            arrays["slices"], found = pd.factorize(records.slices)
            header["slices"] = found.tolist()
        arrays["marks"] = marks(records)
        header["arrays"] = list(arrays)
        encoded = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        write_npz(self._at(len(self)), header=encoded, **arrays)
        self._headers.append(header)


def _columns(mapping: LogMapping) -> dict:
    """A mapping without what reading does not depend on."""
    return {key: value for key, value in mapping.as_dict().items() if key not in LEARNING}
