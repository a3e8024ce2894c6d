"""The result of one check: its value, threshold, level and a sentence for the user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

LEVEL = 1e-4  # significance level of all tests of one check together
MIN_ROWS = 40  # logs with fewer rows are not checked for drift and leakage


@dataclass(frozen=True)
class Diagnostic:
    """The result of one check of a log or a policy.

    Attributes
    ----------
    name : str
        Common name of the quantity that the check computes.
    value : float or None
        The quantity.
    threshold : str
        The condition for the level "good", as a phrase.
    level : str
        "good", "caution" or "fail".
    sentence : str
        The result with its numbers, without a capital letter at the start and a full stop at the end.
    source : str
        Source of the check, in most cases a publication.
    low, high : float or None
        Ends of the confidence interval of the value, at 95 % unless the threshold names another level.
    """

    name: str
    value: float | None
    threshold: str
    level: str
    sentence: str
    source: str
    low: float | None = None
    high: float | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the attributes as JSON values. The sentence gets its capital letter and its full stop."""
        return to_json(asdict(self)) | {"sentence": f"{capitalize(self.sentence)}."}


def capitalize(text: str) -> str:
    """Return a text with a capital first letter; the rest is unchanged."""
    return text[:1].upper() + text[1:]


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in per cent."""
    return f"{100 * share:.{decimals}f} %"


def with_confidence(level: float) -> str:
    """Return a confidence level in words, with all its digits: "with 99.5 % confidence"."""
    return f"with {100 * level:.10g} % confidence"


def to_json(value: Any) -> Any:
    """Return a value as JSON values: numbers that are not finite become None, and arrays become lists."""
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def judge_share(share: float, most: float, fails: float) -> tuple[str, str]:
    """Return the threshold in words, and the level of a share that should be at most ``most``."""
    return f"at most {percent(most)}; fails above {percent(fails)}", worst_level(share > fails, share > most)


def worst_level(fails: bool, cautions: bool) -> str:
    """Return "fail" if the first condition holds, "caution" if only the second does, else "good"."""
    return "fail" if fails else "caution" if cautions else "good"
