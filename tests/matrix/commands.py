"""Run drcrm's commands in this process, and compare their answers."""

from __future__ import annotations

import io
import json
import math
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from drcrm.__main__ import main

TEXTS = {
    "name",
    "label",
    "column",
    "outcome",
    "condition",
    "slice",
    "period",
    "kind",
    "action",
    "refused",
    "margin",
    "share",
}
PARTS = ("logging", "candidates", "baseline", "guardrails", "slices", "running")


class Answer(NamedTuple):
    """Exit status, standard output in one line, standard error and the JSON answer of a command."""

    status: int
    text: str
    error: str
    json: dict[str, Any]


def run(name: str, *arguments: object) -> Answer:
    """Run a command, with --json if it has an answer. A status of 3 or 4 is that of --fail-unless."""
    out, error = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(out), redirect_stderr(error):
        path = Path(folder) / "answer.json"
        extra = [] if name in ("predict", "export") else ["--json", str(path)]
        try:
            status = main([name, *map(str, arguments), *extra])
        except SystemExit as end:
            status = int(end.code or 0)
        answer = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Answer(status, " ".join(out.getvalue().split()), error.getvalue(), answer)


def numbers_of(answer: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of an answer about a policy by their path, without those that describe the files."""
    found: dict[str, float] = {}

    def visit(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, entry in value.items():
                if key not in TEXTS:
                    visit(entry, f"{path}.{key}")
        elif isinstance(value, list):
            for place, entry in enumerate(value):
                visit(entry, f"{path}.{place}")
        elif value is None or isinstance(value, int | float):
            found[path] = math.nan if value is None else float(value)

    for part in PARTS:
        visit(answer.get(part), part)
    return found


def assert_same_numbers(first: dict[str, Any], second: dict[str, Any], tolerance: float = 1e-9) -> None:
    """Raise AssertionError unless two answers have the same numbers and the same verdict."""
    expected, actual = numbers_of(first), numbers_of(second)
    scale = max([1.0, *(abs(value) for value in expected.values() if math.isfinite(value))][:1])
    different = {
        path: (value, actual.get(path))
        for path, value in expected.items()
        if not is_close(value, actual.get(path, math.inf), tolerance, scale)
    }
    assert expected.keys() == actual.keys(), expected.keys() ^ actual.keys()
    assert not different, different
    assert first["verdict"]["verdict"] == second["verdict"]["verdict"]


def is_close(first: float, second: float, tolerance: float = 1e-9, scale: float = 1.0) -> bool:
    """Return whether two numbers are equal, both infinite or both missing, relative to their size or to ``scale``."""
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return first == second or abs(first - second) <= tolerance * max(abs(first), abs(second), scale)
