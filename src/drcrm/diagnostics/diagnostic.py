"""One diagnostic of a log, and its levels."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

LEVELS = ("good", "caution", "fail")


@dataclass(frozen=True)
class Diagnostic:
    """One question to a log, with its answer.

    Attributes
    ----------
    name, source : str
        Its usual name, and where it comes from.
    value, low, high : float or None
        The answer, with an interval where it has one: at 95 %, unless the threshold names another level.
    threshold : str
        What is good, in words.
    level : "good", "caution" or "fail"
    sentence : str
        The answer in plain words, with its numbers.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    threshold: str
    level: str
    sentence: str
    source: str

    def as_dict(self) -> dict[str, object]:
        """Return what goes into JSON: None for what is not finite, and a whole sentence."""
        found = {key: to_json_number(value) for key, value in asdict(self).items()}
        return found | {"sentence": f"{capitalize(self.sentence)}."}


def capitalize(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def to_json_number(value):
    """Return a Python number for JSON, None if it is not finite, and any other value unchanged."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def worst_level(fails: bool, cautions: bool) -> str:
    """Return the worse of the levels that hold."""
    return "fail" if fails else "caution" if cautions else "good"
