"""Progress of long-running work on standard error: a tqdm bar on a terminal, and one line per task if verbose."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from shutil import get_terminal_size
from typing import Any

from drcrm.arrays.formats import format_number

UNKNOWN_TOTAL = "{desc} …{postfix}"
KNOWN_TOTAL = "{l_bar}{bar}| {n_fmt} of {total_fmt} {unit}, {remaining} left{postfix}"


class Progress:
    """Show the current task and how much of it is left. Call the object with a name to begin a task.

    The bar needs tqdm and a terminal. If ``verbose``, each finished task writes a line with its duration, number of
    passes through the log, and rows per second.
    """

    def __init__(self, verbose: bool = False):
        self._verbose, self._task, self._bar = verbose, "", None
        self._passes, self._rows, self._start = 0, 0.0, 0.0

    def __call__(self, task: str) -> None:
        """Finish the current task and begin another one."""
        self.finish()
        self._task, self._passes, self._rows, self._start = task, 0, 0, time.monotonic()
        self._bar = _open_bar(task)

    def receive_pass(self, rows: int) -> None:
        """Receive the number of rows of a pass over a log."""
        self._passes += 1
        self.receive_progress(rows, "rows")

    def receive_progress(self, amount: float, unit: str, total: float | None = None) -> None:
        """Receive an amount of finished work in a unit such as "rows", and the total amount if it is known."""
        self._rows += amount if unit == "rows" else 0
        if (bar := self._bar) is None:
            return
        if total is not None and unit != bar.unit:
            bar.unit, bar.unit_scale, bar.bar_format = unit, total > 9999, KNOWN_TOTAL
            bar.reset(total)
        if self._passes:
            bar.set_postfix_str(self._speed(), refresh=False)
        bar.update(amount if unit == bar.unit else 0)

    def finish(self) -> None:
        """Finish the current task and remove the bar."""
        if self._bar is not None:
            self._bar.close()
        if self._verbose and self._task:
            seconds = f"{time.monotonic() - self._start:.1f} s"
            passes, speed = f"{self._passes} passes" if self._passes else "", self._speed() if self._rows else ""
            print(f"{self._task}:", ", ".join(filter(None, (seconds, passes, speed))), file=sys.stderr, flush=True)
        self._task, self._bar = "", None

    def _speed(self) -> str:
        speed = self._rows / max(time.monotonic() - self._start, 1e-9) / 1e6
        return f"{format_number(speed, digits=2)} million rows a second"


def _open_bar(task: str) -> Any:
    """Return a tqdm bar without a total; None without tqdm or a terminal."""
    if not (sys.stderr and sys.stderr.isatty()):
        return None
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return None
    columns, rows = get_terminal_size()  # 80 × 24 if unknown; tqdm shows nothing at width 0
    layout = {"ncols": columns, "nrows": rows, "bar_format": UNKNOWN_TOTAL}
    return tqdm(desc=task, leave=False, file=sys.stderr, miniters=0, smoothing=0, **layout)


_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def show_progress(verbose: bool = False, n_jobs: int | None = None) -> Iterator[Progress]:
    """Yield a ``Progress`` that receives all reports. Loops over a log use ``n_jobs`` threads."""
    threads: Any = nullcontext()
    if n_jobs is not None:
        from drcrm.data.chunked_log import use_threads  # imported here: scipy is slow to import

        threads = use_threads(n_jobs)
    progress = Progress(verbose)
    token = _PROGRESS.set(progress)
    try:
        with threads:
            yield progress
    finally:
        progress.finish()
        _PROGRESS.reset(token)


def report_pass(rows: int) -> None:
    """Report a pass over a log with this number of rows."""
    if (progress := _PROGRESS.get()) is not None:
        progress.receive_pass(rows)


def report_progress(amount: float, unit: str, total: float | None = None) -> None:
    """Report an amount of finished work in a unit such as "rows", and the total amount if it is known."""
    if (progress := _PROGRESS.get()) is not None:
        progress.receive_progress(amount, unit, total)
