"""InputError for input that cannot be used, warnings that point at the caller's line, and optional packages."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

INTERNAL = (__name__.partition(".")[0], "numpy", "contextlib")  # np.errstate adds frames of numpy and contextlib


class InputError(ValueError):
    """Input that cannot be used. The message says what was found, where, and what was expected.

    Each argument is a message and gets its own line.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class RareRowsError(InputError):
    """A bound is refused because rare rows dominate the estimate. With more rows it would be issued."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line of the caller outside the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in INTERNAL:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_all(*messages: str) -> None:
    """Warn once with all messages that are not empty."""
    if any(messages):
        warn("; ".join(filter(None, messages)))


def escape_unprintable(message: object) -> str:
    """Return a message as one line, with Python escapes in place of unprintable characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(message))


@contextmanager
def prefix_errors(place: object) -> Iterator[None]:
    """Prefix the messages of any InputError in the ``with`` block with a place: a file or a configuration key."""
    try:
        yield
    except InputError as error:
        raise InputError(*(escape_unprintable(f"{place}: {message}") for message in error.args)) from error


@contextmanager
def refuse_errors(message: str) -> Iterator[None]:
    """Raise InputError, with a message and the reason, if the ``with`` block fails for any reason.

    Use it for damaged bytes and for a user's code, which may raise anything. An InputError and a MemoryError pass.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{message}: {reason}") from error


def import_extra(name: str, extra: str = "logs") -> Any:
    """Return a module of an extra; InputError explains how to install it."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InputError(f"{package} is not installed, expected: pip install 'drcrm[{extra}]'") from None
