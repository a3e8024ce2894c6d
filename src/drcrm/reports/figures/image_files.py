"""Figures as the content of files: the same bytes for the same figure."""

from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from drcrm.errors import InputError
from drcrm.reports.figures.style import RC

DATES = {".pdf": "CreationDate", ".svg": "Date", ".png": None}


def pictures(draw: Callable[..., Figure], data: object, paths: Iterable[Path]) -> dict[Path, bytes]:
    """What to write to each path: the figure that is drawn of the data, in the format of the suffix, without a date.

    InputError for a name that does not end in a known format.
    """
    for path in paths:
        if path.suffix not in DATES:
            raise InputError(f"{path}: expected a name that ends in .pdf, .svg or .png")
    with matplotlib.rc_context(RC):
        figure = draw(data)
        return {path: _saved(figure, path.suffix) for path in paths}


def _saved(figure: Figure, suffix: str) -> bytes:
    stream, date = BytesIO(), DATES[suffix]
    figure.savefig(stream, format=suffix[1:], metadata={date: None} if date else None)
    return stream.getvalue()
