"""The one exception for input that is wrong: a one-line message for whoever gave the input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """An input that cannot be used; the message says what was found, where, and what was expected."""


def printable(message: object) -> str:
    """Return a message in one line: what cannot be printed, as it is escaped in Python."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(message))


@contextmanager
def located(place: object) -> Iterator[None]:
    """Put ``place`` (a file, a config key) in front of the message of any InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(printable(f"{place}: {error}")) from error
