"""Outputs of commands: no file may be written over what a command reads, or twice."""

import argparse
import os
from pathlib import Path

from drcrm.errors import InputError
from drcrm.files import is_null_device, standard_descriptor

WRITTEN = "output", "json", "report"


def require_apart(options: argparse.Namespace) -> None:
    """Raise InputError for an output that is a folder, or that is also an input or another output, through links too.

    Only /dev/null may be several outputs.
    """
    given = {name: getattr(options, name, None) for name in ("log", "contexts", "config", "policy", *WRITTEN)}
    paths = {name: Path(path) for name, path in given.items() if isinstance(path, Path | str)}
    for name in [name for name in WRITTEN if name in paths]:
        output = paths[name]
        for other, path in paths.items():
            if other != name and _are_same(output, path):
                raise InputError(f"{output} is both --{name} and {other}, expected a file each")
            if other not in WRITTEN and _holds(path, output):
                raise InputError(f"--{name} is {output}, a file of {path}, which is read; expected another file")
        if output.is_dir() or not output.name:
            raise InputError(f"--{name} is {str(output)!r}, a folder, expected a file")


def _are_same(output: Path, path: Path) -> bool:
    """Return whether two paths lead to the same file, pipe or stream."""
    if is_null_device(output):
        return False
    if (stream := standard_descriptor(output)) and stream == standard_descriptor(path):
        return True
    exist = output.exists() and path.exists()
    return os.path.samefile(output, path) if exist else os.path.realpath(output) == os.path.realpath(path)


def _holds(folder: Path, output: Path) -> bool:
    """Return whether an output would replace a file of a folder."""
    return folder.is_dir() and output.is_file() and Path(os.path.realpath(output)).parent == folder.resolve()
