"""The steps of the pipeline: each reads files, calls the core and writes files.

A step is a module with ``add_arguments(parser)`` and ``run(options)``; ``drcrm STEP`` calls them.
"""

import argparse
import zlib
from pathlib import Path

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.unique_keys import parse_json


def generator(dataset: str, seed: int, step: str) -> np.random.Generator:
    """The generator of everything random in a step: it depends on these names alone, not on the experiment."""
    return np.random.default_rng([zlib.crc32(f"{dataset}/{step}".encode()), seed])


def whole(least: int):
    """An argument type: a whole number, ``least`` or more."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    parse.__name__ = "whole number"
    return parse


def fraction(text: str) -> float:
    """An argument type: a number strictly between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def positive(text: str) -> float:
    """An argument type: a finite number above 0."""
    value = float(text)
    if not 0 < value < np.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return value


SHARED = {  # arguments of several steps
    "train": {"type": Path, "help": "npz from fetch"},
    "split": {"type": Path, "help": "npz from split"},
    "log": {"type": Path, "help": "npz from replay"},
    "metrics": {"type": Path, "help": "csv from collect"},
    "split-unit": {"choices": ("row", "context"), "help": "what is held out"},
    "replay-count": {"type": whole(1), "help": "passes over the contexts"},
    "dataset": {"help": "name of the data set, an axis of the random seed"},
    "seed": {"type": whole(0), "help": "number of the repetition, from 0"},
    "output": {"type": Path},
}


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add arguments of ``SHARED``; all of them are needed."""
    for name in names:
        parser.add_argument(f"--{name}", required=True, **SHARED[name])


def add_clicks(parser: argparse.ArgumentParser) -> None:
    """Add --click-rates."""
    parser.add_argument(
        "--click-rates",
        nargs=2,
        type=float,
        default=(1, 0),
        metavar=("RIGHT", "WRONG"),
        help="with one action of K, the probabilities that the logged cost of the right action, and of others, is −1",
    )


def assignment(text: str) -> tuple[str, str]:
    """An argument type: NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def json_object(text: str) -> dict:
    """An argument type: a JSON object."""
    try:
        value = parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def require(condition: bool, message: str) -> None:
    """Raise InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)
