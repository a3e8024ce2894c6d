"""What a command says while it works: a line that is written over on a terminal, nothing in a file."""

import sys
import time


class Progress:
    """Says on stderr what is being done, and with ``verbose`` how long what was done took."""

    def __init__(self, verbose: bool = False):
        self._verbose, self._shown = verbose, sys.stderr.isatty()
        self._doing, self._since = "", time.monotonic()

    def __call__(self, doing: str) -> None:
        """Say what is done from now on."""
        self._end()
        self._doing, self._since = doing, time.monotonic()
        if self._shown:
            print(f"\r\x1b[K{doing} …", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Leave the line as it was found."""
        self._end()
        self._doing = ""

    def _end(self) -> None:
        if self._shown and self._doing:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self._verbose and self._doing:
            print(f"{self._doing}: {time.monotonic() - self._since:.1f} s", file=sys.stderr, flush=True)
