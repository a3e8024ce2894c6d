"""Figures as files: the same bytes for the same figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ..errors import InputError
from .files import atomic

DATES = {".pdf": "CreationDate", ".svg": "Date", ".png": None}


def check_formats(paths: Sequence[Path]) -> None:
    """Raise InputError for a name that does not end in a known format."""
    for path in paths:
        if path.suffix not in DATES:
            raise InputError(f"{path}: expected a name that ends in .pdf, .svg or .png")


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure in the format of each path's suffix, without a date."""
    for path in paths:
        with atomic(path) as part:
            date = DATES[path.suffix]
            figure.savefig(part, metadata={date: None} if date else None)
