"""Arguments that commands share."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from ..core.passes import as_jobs
from ..core.validation import above_half, zero_to_one
from ..errors import InputError
from ..files import is_null, standard_stream
from ..unique_keys import parse_json

WRITTEN = "output", "json", "report"


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", type=Path, help="CSV, Parquet, npz, Vowpal Wabbit's text or dsjson")
    what = "the mapping: what the columns are, a file of YAML or JSON, or JSON itself"
    parser.add_argument("--config", type=_mapping, metavar="FILE", help=what)


def add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY", help="npz from learn, or column:NAME of the log")
    add_log(parser)


def add_answers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", type=Path, metavar="HTML", help="write the page; - is standard output")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer as JSON; - is standard output")
    parser.add_argument("--confidence", type=_confidence, default=0.95, help="of bounds and intervals (0.95)")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="threads; -1 takes all cores (1)")
    parser.add_argument("--verbose", action="store_true", help="say how long each part took")


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--seed", type=_seed, default=0, help=f"{what} (0)")


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
    if is_null(output):
        return False
    if (stream := standard_stream(output)) and stream == standard_stream(path):
        return True
    exist = output.exists() and path.exists()
    return os.path.samefile(output, path) if exist else os.path.realpath(output) == os.path.realpath(path)


def _holds(folder: Path, output: Path) -> bool:
    """Return whether an output would replace a file of a folder."""
    return folder.is_dir() and output.is_file() and Path(os.path.realpath(output)).parent == folder.resolve()


def _mapping(text: str) -> Path | dict:
    if not text.lstrip().startswith("{"):
        return Path(text)
    try:
        return parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _type(convert: Callable[[str], float], expected: str) -> Callable[[str], float]:
    """Return an argument type that converts text; argparse shows what was expected if that fails."""

    def converted(text: str) -> float:
        try:
            return convert(text)
        except (ValueError, InputError):
            raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}") from None

    return converted


share = _type(lambda text: zero_to_one(float(text), "share"), "a number from 0 to 1")
_confidence = _type(lambda text: above_half(float(text), "confidence"), "a number above ½ and below 1")
_jobs = _type(lambda text: as_jobs(int(text), "jobs"), "a whole number that is not 0")


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from 0 to 2³² − 1")
    return int(text)
