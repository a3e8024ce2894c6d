"""Image files of figures, the same bytes for the same figure."""

from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from drcrm.errors import InputError
from drcrm.files import atomic
from drcrm.reports.figures.style import RC

METADATA = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": None}  # without the date


def write_figure(draw: Callable[..., Figure], data: object, paths: Iterable[str]) -> None:
    """Draw a figure of the data, and write it to each path in the format of its suffix.

    Raises
    ------
    InputError
        If a path does not end in .pdf, .svg or .png.
    """
    with matplotlib.rc_context(RC):
        figure = draw(data)
        for path in map(Path, paths):
            if path.suffix not in METADATA:
                raise InputError(f"{path}: the name of a figure must end in .pdf, .svg or .png")
            with atomic(path) as part:
                figure.savefig(part, format=path.suffix[1:], metadata=METADATA[path.suffix])
