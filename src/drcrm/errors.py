"""The one exception for input that is wrong, and warnings: messages for who gave the input, a line for each error."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

INSIDE = (__name__.partition(".")[0], "numpy", "contextlib")  # numpy, and contextlib, call what np.errstate decorates


class InputError(ValueError):
    """An input that cannot be used; the message says what was found, where, and what was expected.

    Given several messages, those of a configuration with as many errors, it has each in a line.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package, however deep inside the reason was found."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_all(*reasons: str) -> None:
    """Warn once of all reasons that are not empty, if any."""
    if any(reasons):
        warn("; ".join(filter(None, reasons)))


def escape_unprintable(message: object) -> str:
    """Return a message in one line: what cannot be printed, as it is escaped in Python."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(message))


@contextmanager
def prefix_errors(place: object) -> Iterator[None]:
    """Put ``place`` (a file, a config key) in front of the message of any InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(*(escape_unprintable(f"{place}: {each}") for each in error.args)) from error
