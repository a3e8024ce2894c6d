"""The option --shift and the mapping's key ``shift``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from drcrm.errors import InputError
from drcrm.logs.mapping import LogMapping, as_mapping


def mapping_with_shift(content: Any, options: argparse.Namespace) -> LogMapping:
    """Return the mapping, in which --shift replaces ``shift``."""
    mapping = as_mapping(content)
    return mapping if options.shift is None else replace(mapping, shift=options.shift)


def require_compatible(shift: float | None, options: argparse.Namespace) -> None:
    """Raise InputError if the shift of a mapping cannot be combined with another option."""
    if shift is None:
        return
    for name, reason in (("anytime", "bounds the mean cost"), ("sensitivity", "compares mean costs")):
        if getattr(options, name, None):
            raise InputError(
                f"--{name} {reason}, but shift is {shift:g}; leave out one of them: the option --{name}, or --shift "
                "and the key shift of the mapping"
            )
