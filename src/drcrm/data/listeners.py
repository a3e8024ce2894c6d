"""Progress reports: long-running work sends them, and the current listener receives them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Listener:
    """Receiver of progress reports; this base class ignores them."""

    def receive_pass(self, rows: int) -> None:
        """Receive the number of rows of a pass over a log."""

    def receive_progress(self, amount: float, unit: str, total: float | None = None) -> None:
        """Receive an amount of finished work in a unit such as "rows", and the total amount if it is known."""


_LISTENER: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039  it has no state


@contextmanager
def use_listener(listener: Listener) -> Iterator[None]:
    """Send all reports to ``listener`` inside the ``with`` block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_pass(rows: int) -> None:
    """Report a pass over a log with this number of rows."""
    _LISTENER.get().receive_pass(rows)


def report_progress(amount: float, unit: str, total: float | None = None) -> None:
    """Report an amount of finished work in a unit such as "rows", and the total amount if it is known."""
    _LISTENER.get().receive_progress(amount, unit, total)
