"""Render figures to the bytes of image files, the same bytes for the same figure."""

from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from drcrm.errors import InputError
from drcrm.reports.figures.style import RC

METADATA = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": None}  # without the date


def render(draw: Callable[..., Figure], data: object, paths: Iterable[Path]) -> dict[Path, bytes]:
    """Draw a figure of the data, and return the content of each path in the format of its suffix.

    Raises
    ------
    InputError
        If a path does not end in .pdf, .svg or .png.
    """
    for path in paths:
        if path.suffix not in METADATA:
            raise InputError(f"{path}: the name of a figure must end in .pdf, .svg or .png")
    contents = {}
    with matplotlib.rc_context(RC):
        figure = draw(data)
        for path in paths:
            stream = BytesIO()
            figure.savefig(stream, format=path.suffix[1:], metadata=METADATA[path.suffix])
            contents[path] = stream.getvalue()
    return contents
