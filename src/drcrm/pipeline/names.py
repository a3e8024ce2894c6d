"""Names that become files."""

from __future__ import annotations

from ..errors import InputError


def check_file_name(name: str) -> str:
    """Return ``name``; InputError unless it is that of a file in a folder, and leads nowhere else."""
    if name in ("", ".", "..") or name[:1] == "-" or "/" in name or not name.isprintable() or len(name.encode()) > 255:
        raise InputError(f"{name!r} is not the name of a file: no path, no '-' in front, 255 bytes at most")
    return name
