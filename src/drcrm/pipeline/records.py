"""What an experiment's results say of the options that they were made with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path


def digest(settings: Mapping) -> str:
    """The SHA-256 of an experiment with its data sets and algorithms, as ``lookups.settings`` has them."""
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def made_otherwise(provenance: str | Path, settings: Mapping) -> str:
    """What differs, in words, between settings and those that a file of provenance has; nothing without such a file."""
    try:
        found = json.loads(Path(provenance).read_text(encoding="utf-8"))
        options, recorded = found["options"], found["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if recorded == digest(settings):
        return ""
    now = settings["experiment"]
    return ", ".join(sorted(key for key in {*options, *now} if options.get(key) != now.get(key))) or (
        "settings of its data sets or algorithms"
    )
