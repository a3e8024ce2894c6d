"""Arguments that commands share."""

import argparse
from pathlib import Path

from ..core.passes import as_jobs
from ..core.validation import above_half, zero_to_one
from ..errors import InputError
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
    parser.add_argument("--report", type=Path, metavar="HTML", help="write the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer as JSON")
    parser.add_argument("--confidence", type=_confidence, default=0.95, help="of bounds and intervals (0.95)")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="threads; -1 takes all cores (1)")
    parser.add_argument("--verbose", action="store_true", help="say how long each part took")


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--seed", type=_seed, default=0, help=f"{what} (0)")


def require_apart(options: argparse.Namespace) -> None:
    """Raise InputError where a file is to be written over what is read or written too, or where it cannot be."""
    given = {name: getattr(options, name, None) for name in ("log", "contexts", "config", "policy", *WRITTEN)}
    paths = {name: Path(each) for name, each in given.items() if isinstance(each, Path | str)}
    written = [name for name in WRITTEN if name in paths]
    for name in written:
        for other, path in paths.items():
            if other != name and path.resolve() == paths[name].resolve():
                raise InputError(f"{paths[name]} is both --{name} and {other}, expected a file each")
        if paths[name].is_dir() or not paths[name].name:
            raise InputError(f"--{name} is {str(paths[name])!r}, a folder, expected a file")


def _mapping(text: str) -> Path | dict:
    if not text.lstrip().startswith("{"):
        return Path(text)
    try:
        return parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        return zero_to_one(float(text), "share")
    except (ValueError, InputError):
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0 to 1") from None


def _confidence(text: str) -> float:
    try:
        return above_half(float(text), "confidence")
    except (ValueError, InputError):
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number above ½ and below 1") from None


def _jobs(text: str) -> int:
    try:
        return as_jobs(int(text), "jobs")
    except (ValueError, InputError):
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number that is not 0") from None


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from 0 to 2³² − 1")
    return int(text)
