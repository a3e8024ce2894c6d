"""Progress of long work: a bar on a terminal (tqdm), and with ``verbose`` a line for each finished part."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from shutil import get_terminal_size

from drcrm.data.executors import use_threads
from drcrm.data.listeners import Listener, use_listener

ENDLESS = "{desc} …{postfix}"  # the bar while it is unknown how much is left
COUNTED = "{l_bar}{bar}| {n_fmt} of {total_fmt} {unit}, {remaining} left{postfix}"


class Progress(Listener):
    """Show on standard error, if it is a terminal, what is being done and how much is left.

    Without tqdm nothing is shown. With ``verbose``, a line for each finished part has its duration, and the number of
    passes and of rows per second if there were any.
    """

    _doing, _passes, _rows, _since, _tqdm, _bar = "", 0, 0, 0.0, None, None

    def __init__(self, verbose: bool = False):
        self._verbose = verbose
        if sys.stderr and sys.stderr.isatty():
            with suppress(ModuleNotFoundError):
                self._tqdm = import_module("tqdm").tqdm

    def __call__(self, doing: str) -> None:
        """Finish the current part of the work and begin another one."""
        self.done()
        self._doing, self._passes, self._rows, self._since = doing, 0, 0, time.monotonic()
        if self._tqdm:
            columns, rows = get_terminal_size()  # 80 × 24 if unknown: at a width of 0 tqdm shows nothing
            self._bar = self._tqdm(
                desc=doing,
                leave=False,
                file=sys.stderr,
                ncols=columns,
                nrows=rows,
                miniters=0,
                smoothing=0,
                bar_format=ENDLESS,
            )

    def passed(self, rows: int) -> None:
        self._passes += 1
        self.advance(rows, "rows")

    def advance(self, amount: float, unit: str, total: float | None = None) -> None:
        self._rows += amount if unit == "rows" else 0
        if (bar := self._bar) is None:
            return
        if total is not None and unit != bar.unit:
            bar.unit, bar.unit_scale, bar.bar_format = unit, total > 9999, COUNTED
            bar.reset(total)
        if self._passes:
            bar.set_postfix_str(self._speed()[2:], refresh=False)
        bar.update(amount if unit == bar.unit else 0)

    def done(self) -> None:
        """Finish the current part, and remove the bar."""
        if self._bar is not None:
            self._bar.close()
        if self._verbose and self._doing:
            passes = f", {self._passes} passes" if self._passes else ""
            line = f"{self._doing}: {time.monotonic() - self._since:.1f} s{passes}{self._speed() if self._rows else ''}"
            print(line, file=sys.stderr, flush=True)
        self._doing = ""

    def _speed(self) -> str:
        return f", {self._rows / max(time.monotonic() - self._since, 1e-9) / 1e6:.2g} million rows a second"


@contextmanager
def show_progress(verbose: bool = False, n_jobs: int | None = None) -> Iterator[Progress]:
    """Yield a ``Progress`` that receives all reports; ``n_jobs`` threads make the passes over a log."""
    tell = Progress(verbose)
    try:
        with use_threads(n_jobs), use_listener(tell):
            yield tell
    finally:
        tell.done()
