"""What all kinds of input share: how a case is run, and what it may come to."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random

from drcrm.__main__ import main
from drcrm.errors import InputError

LIMIT = 10  # seconds a case may take


class Failure(AssertionError):
    """A case came to what no case may come to."""


class Hang(BaseException):
    """A case took too long; no step catches it."""


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    ``make`` draws a case; ``check`` runs it in an empty folder that is the working folder, says whether it was accepted
    (or refused, in one line), and raises whatever else happens. ``share`` is how many of a thousand cases are its.
    """

    name: str
    share: int
    make: Callable[[Random], object]
    check: Callable[[object, Path], bool]

    def run(self, case: object, yard: Path) -> bool:
        """Check a case in a folder of a yard in which nothing else may change."""
        folder = yard / "a/b/work"
        folder.mkdir(parents=True, exist_ok=True)
        canary = yard / "canary.svm"
        canary.write_text("0 1:1\n")
        back = Path.cwd()
        os.chdir(folder)
        try:
            with timed(), warnings.catch_warnings():
                warnings.simplefilter("error")
                accepted = self.check(case, folder)
            expect(canary.read_text() == "0 1:1\n", "a file outside was written to")
            left = sorted(str(path.relative_to(yard)) for path in outside(yard, folder))
            expect(left == ["a", "a/b", "canary.svm"], f"files outside: {left}")
        except BaseException:
            empty(yard)
            raise
        finally:
            os.chdir(back)
            empty(folder)
        return accepted


def empty(folder: Path) -> None:
    """Remove what is in a folder, if it is there."""
    for path in folder.iterdir() if folder.is_dir() else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def outside(yard: Path, folder: Path) -> Iterator[Path]:
    """All that is in a yard but a folder and its content."""
    for path in yard.iterdir():
        if path != folder:
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from outside(path, folder)


@contextmanager
def timed() -> Iterator[None]:
    """Raise Hang inside after the limit."""

    def stop(*_):
        raise Hang(f"more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Failure(message)


def in_one_line(call: Callable, *arguments, **named) -> tuple[object, str | None]:
    """Return what a call gives, or the message of its InputError, which is one line."""
    found, lines = in_lines(call, *arguments, **named)
    expect(len(lines) <= 1, f"not one line: {lines!r}")
    return found, lines[0] if lines else None


def in_lines(call: Callable, *arguments, **named) -> tuple[object, list[str]]:
    """Return what a call gives, and the lines of its InputError, one for each error."""
    try:
        return call(*arguments, **named), []
    except InputError as error:
        lines = str(error).split("\n")
        expect(all(line.strip() != "" and line.isprintable() for line in lines), f"not lines: {lines!r}")
        return None, lines


def step(*arguments: object, kept: str = "") -> tuple[bool, str]:
    """Run a step; return whether it succeeded and its line on stderr.

    Nothing is left where it did not, but in the folder ``kept``.
    """
    here = Path.cwd()
    before = listing(here)
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
    said = err.getvalue()
    if status == 0:
        return True, said
    expect(status in (1, 2), f"exit status {status!r}")
    expect(said.endswith("\n") and said[:-1].strip() != "" and said[:-1].isprintable(), f"not one line: {said!r}")
    left = {path: size for path, size in listing(here).items() if not (kept and path.startswith(kept))}
    before = {path: size for path, size in before.items() if not (kept and path.startswith(kept))}
    expect(left == before, f"left behind: {sorted(set(left) ^ set(before))}")
    return False, said


def listing(folder: Path) -> dict[str, int]:
    """The files in a folder, hidden or not, and their sizes."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(OSError):
            found[str(path.relative_to(folder))] = path.lstat().st_size if not path.is_dir() else -1
    return found
