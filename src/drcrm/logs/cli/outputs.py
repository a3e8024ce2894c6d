"""Outputs of a command's answer: the JSON file, the HTML report and the terminal."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.files import is_stream, standard_descriptor, write_json
from drcrm.logs.diagnostics.comparison.words import ESTIMATED
from drcrm.logs.report.answer import Answer

INPUTS, OUTPUTS = ("log", "contexts", "config", "policy", "baseline"), ("output", "best", "json", "report")


@dataclass(frozen=True)
class Outputs:
    """Files that a command writes."""

    report: Path | None = None
    json: Path | None = None
    output: Path | None = None
    best: Path | None = None

    def write(self, answer: Answer) -> None:
        """Write an answer, and print its summary."""
        if self.json:
            write_json(self.json, answer.as_dict())
        if self.report:
            answer.report(self.report)
        self.print_summary(str(answer))

    def print_summary(self, text: str) -> None:
        """Print a summary, to standard error if a file is written to standard output."""
        is_taken = any(path is not None and standard_descriptor(path) == 1 for path in vars(self).values())
        print(text, end="", file=sys.stderr if is_taken else sys.stdout)


def exit_status(answer: Answer, requirement: str | None) -> int:
    """Return the exit status for --fail-unless: 0 if the requirement holds, 3 if not, 4 if the log does not decide it.

    *better* counts as *not shown* if it has an assumption that the mapping does not trust. *not shown* with a violated
    guardrail or limit counts as *worse*. Print the verdict to standard error if the requirement does not hold.
    """
    verdict: Any = answer.verdict
    name, violated = verdict.name, verdict.violated
    passing = {"better": ("better",) if answer.is_trusted else (), "not-worse": ("better", "not shown")}
    if requirement is None or (name in passing[requirement] and not violated):
        return 0
    reason = f", and the {violated[0]} is violated" if violated else ""
    if name == "better":
        reason = f", if {ESTIMATED}; to accept this, write propensity_model: {{model: auto, trusted: true}}"
    print(f"--fail-unless {requirement}: the verdict is {name!r}{reason}", file=sys.stderr)
    return 3 if violated or name in ("worse", "the log is wrong") else 4


def require_separate_outputs(**options: Any) -> None:
    """Raise InputError if an output cannot be written, is a folder or an input, or equals another output.

    ``options`` are those of a command, by name. Links are followed. Only /dev/null may be used for several outputs.
    """
    paths: list[tuple[str, Path]] = []
    for name in (*INPUTS, *OUTPUTS):
        value = options.get(name)
        values = value if isinstance(value, list) else [value]
        paths += [(name, Path(path)) for path in values if isinstance(path, Path | str)]
    for name, output in [(name, path) for name, path in paths if name in OUTPUTS]:
        for role, path in paths:
            if role != name and _are_same(output, path):
                raise InputError(f"{output} is both --{name} and {role}, expected two different files")
            if role in INPUTS and _contains(path, output):
                raise InputError(f"--{name} {output} is a file of the input folder {path}, expected a file elsewhere")
        if output.is_dir() or not output.name:
            raise InputError(f"--{name} must be a file, got the folder {str(output)!r}")
        if not (is_stream(output) or _can_be_created(output)):
            raise InputError(f"--{name} {output} cannot be written: its folder does not permit it")


def _are_same(output: Path, path: Path) -> bool:
    """Return whether two paths are the same file, pipe or standard stream; False for /dev/null."""
    if str(output) == os.devnull:
        return False
    if (descriptor := standard_descriptor(output)) and descriptor == standard_descriptor(path):
        return True
    exist = output.exists() and path.exists()
    return os.path.samefile(output, path) if exist else os.path.realpath(output) == os.path.realpath(path)


def _can_be_created(output: Path) -> bool:
    """Return whether the deepest existing folder of the path permits writing."""
    return os.access(next(folder for folder in Path(os.path.realpath(output)).parents if folder.exists()), os.W_OK)


def _contains(folder: Path, output: Path) -> bool:
    """Return whether an output would replace a file in a folder."""
    return folder.is_dir() and output.is_file() and folder.resolve() in Path(os.path.realpath(output)).parents
