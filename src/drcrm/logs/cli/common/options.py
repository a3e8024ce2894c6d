"""Options that several commands share, with the types of their values, for argparse.

Nothing here imports numpy, so that --help is fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.mapping.checks import parse_json

Option = tuple[str, dict[str, Any]]  # a flag, and the keyword arguments of add_argument


def parse_mapping(text: str) -> object:
    """Return the path of a mapping, or the mapping itself if the text is JSON."""
    if not text.lstrip().startswith("{"):
        return Path(text)
    try:
        return parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_delimiter(text: str) -> str:
    """Return the delimiter of a CSV file; ``tab`` is a tabulator."""
    if text not in ("tab", ",", ";", "\t", "|"):
        raise argparse.ArgumentTypeError(f"{text!r}, expected one of , ; | tab")
    return "\t" if text == "tab" else text


class OneOrMore(argparse.Action):
    """Store a single value as it is, and several values as a list."""

    def __call__(self, parser: object, namespace: object, values: Any, option_string: object = None) -> None:
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def number_type(number: Callable, is_valid: Callable, expected: str) -> Callable[[str], float]:
    """Return an argparse type for numbers with a condition; ``expected`` describes valid numbers in its message."""

    def parse(text: str) -> float:
        with suppress(ValueError):
            if is_valid(value := number(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")

    return parse


def seed_option(purpose: str) -> Option:
    """Return the option --seed; ``purpose`` says what it seeds."""
    parse = number_type(
        lambda text: int(text) if text.isdecimal() else -1,
        lambda value: 0 <= value < 2**32,
        "a whole number from 0 to 2³² − 1",
    )
    return "--seed", {"type": parse, "default": 0, "help": f"seed {purpose} (0)"}


LOG: Option = (
    "log",
    {
        "metavar": "LOG",
        "type": Path,
        "nargs": "+",
        "action": OneOrMore,
        "help": "CSV, Parquet, npz, Vowpal Wabbit text or dsjson: a file, a folder, or several of them",
    },
)
CONFIG: Option = (
    "--config",
    {
        "type": parse_mapping,
        "metavar": "FILE",
        "help": "the mapping, which describes the columns: a YAML or JSON file, or the JSON text itself",
    },
)
POLICY: Option = ("policy", {"metavar": "POLICY", "help": "npz from learn, or column:NAME of the log"})
BASELINE: Option = (
    "--baseline",
    {
        "type": Path,
        "metavar": "POLICY",
        "help": "compare with this policy, npz from learn, instead of the logging policy",
    },
)
READABLE: Option = (
    "--readable",
    {"action": "store_true", "help": "consider only policy trees and single actions, which people can read"},
)
FAIL_UNLESS: Option = (
    "--fail-unless",
    {
        "choices": ("better", "not-worse"),
        "help": "exit with status 3 if the verdict is 'worse' or 'the log is wrong' or a guardrail is violated, and "
        "with status 4 if it is 'the log cannot say'. With `better`, 'not shown' gives status 4, and so does 'better' "
        "with estimated propensities, unless the mapping trusts them. All files are written in any case",
    },
)
SENSITIVITY: Option = (
    "--sensitivity",
    {
        "type": number_type(float, lambda value: 1 <= value < float("inf"), "a number of at least 1"),
        "metavar": "FACTOR",
        "help": "also bound the difference for propensities whose odds are off by at most this factor",
    },
)
SHIFT: Option = (
    "--shift",
    {
        "type": number_type(float, lambda value: 0 < value < float("inf"), "a number above 0"),
        "metavar": "KAPPA",
        "help": "compare the worst cases over environments within this KL divergence, like the mapping's key shift",
    },
)
ANSWERS: tuple[Option, ...] = (
    ("--report", {"type": Path, "metavar": "HTML", "help": "write the report; - is standard output"}),
    ("--json", {"type": Path, "metavar": "FILE", "help": "write the answer as JSON; - is standard output"}),
    (
        "--confidence",
        {
            "type": number_type(float, lambda value: 0.5 < value < 1, "a number above ½ and below 1"),
            "default": 0.95,
            "help": "confidence level of bounds and intervals (0.95)",
        },
    ),
    (
        "--jobs",
        {
            "type": number_type(int, bool, "a whole number that is not 0"),
            "default": 1,
            "metavar": "N",
            "help": "threads; -1 takes all cores (1)",
        },
    ),
    ("--verbose", {"action": "store_true", "help": "print how long each part took"}),
)
