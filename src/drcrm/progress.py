"""What is said while something works: a line that is written over on a terminal, nothing in a file."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .core.passes import passes

OFTEN = 0.2  # seconds between two writings of the line


class Progress:
    """Says on stderr what is being done, and with ``verbose`` how long what was done took.

    Where it hears of passes over rows, by ``passed``, it says how many there were, and how many rows a second.
    """

    def __init__(self, verbose: bool = False):
        self._verbose, self._shown = verbose, sys.stderr.isatty()
        self._begin("")

    def __call__(self, doing: str) -> None:
        """Say what is done from now on."""
        self._end()
        self._begin(doing)
        self._show(f"{doing} …")

    def passed(self, rows: int) -> None:
        """Hear of a pass over so many rows."""
        self._passes += 1
        self.read(rows)

    def read(self, rows: int) -> None:
        """Hear of so many rows that were gone through once, of which no pass is counted."""
        self._rows += rows
        if self._shown and time.monotonic() - self._last > OFTEN:
            self._last = time.monotonic()
            self._show(f"{self._doing} … {self._speed()}")

    def done(self) -> None:
        """Leave the line as it was found."""
        self._end()
        self._begin("")

    def _begin(self, doing: str) -> None:
        self._doing, self._passes, self._rows = doing, 0, 0
        self._since = self._last = time.monotonic()

    def _speed(self) -> str:
        seconds = max(time.monotonic() - self._since, 1e-9)
        passes = f"{self._passes} passes, " if self._passes else ""
        return f"{passes}{self._rows / seconds / 1e6:.2g} million rows a second"

    def _show(self, line: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def _end(self) -> None:
        if self._doing:
            self._show("")
        if self._verbose and self._doing:
            took = f"{time.monotonic() - self._since:.1f} s"
            print(f"{self._doing}: {took}{', ' + self._speed() if self._rows else ''}", file=sys.stderr, flush=True)


@contextmanager
def working(verbose: bool = False, n_jobs: int | None = None) -> Iterator[Progress]:
    """Within, passes over a log are made by so many threads, and what gives ``Progress`` hears of them."""
    tell = Progress(verbose)
    try:
        with passes(n_jobs, tell.passed):
            yield tell
    finally:
        tell.done()
