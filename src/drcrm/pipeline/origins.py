"""Where the files of a data set came from, as a record beside them says, and whether they are to be fetched again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .files import write_text
from .sources import Source, is_address

Record = dict[str, dict[str, str | None]]


def read_record(path: str | Path) -> Record:
    """The record by file: ``from``, a folder, an address or null, and ``sha256``. Empty where none can be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: {key: entry[key] for key in ("from", "sha256")} for name, entry in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_record(path: str | Path, record: Mapping) -> None:
    write_text(path, json.dumps(record, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def entry(known: Mapping[str, str | None], place: str | None, found: str, source: Source, name: str) -> dict:
    """What to record of a file with the digest ``found``: fetched from ``place``, or kept and known to the record."""
    if place is None and known.get("sha256") == found:
        return dict(known)
    if place is None and source.mirrored(name) == found:
        place = source.mirror
    return {"from": place, "sha256": found}


def local_contents(source: Source, names: Sequence[str], record: Record) -> dict[str, str]:
    """The digests, by file, of what came or would come from a local mirror: where one changes, files are fetched again.

    They are those of the mirror, or of the record where the mirror is gone, elsewhere or lacks the file. A file from
    afar is not among them, unless a local mirror has another content; nor is one whose digest the configuration has.
    """
    found = {}
    for name in names:
        known = record.get(name, {})
        digest = source.mirrored(name) or known.get("sha256")
        afar = known and (known["from"] is None or is_address(known["from"]))
        if name not in source.sha256 and digest and not (afar and digest == known["sha256"]):
            found[name] = digest
    return found
