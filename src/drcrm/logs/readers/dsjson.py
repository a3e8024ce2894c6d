"""Vowpal Wabbit's dsjson: a line of JSON for each decision, with the context's list of actions.

The lines of its option ``--json`` are read, too, if they have a list of actions.

Formats: https://github.com/VowpalWabbit/vowpal_wabbit/wiki/DSJSON and …/wiki/JSON
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import nan
from numbers import Real
from typing import Any

from drcrm.arrays.validation import LARGEST_PROBABILITY, to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.base import Pairs
from drcrm.logs.readers.vw_text import Decision, Lines, Outcome, TextReader, finite

EVENT = re.compile(rb'\[CHECKPOINT|\{.*("(_label\w*|_multi|EventId)"\s*:|"c"\s*:\s*\{)')  # a line of dsjson
ROUNDING = 0.005  # largest change of a probability that is rounded to two digits
MOST_TESTED = 1000  # number of decisions to read to find out whether actions are counted from 0 or from 1
EACH_SLOT = "write an event for each slot"
UNSUPPORTED = {
    "_outcomes": f"conditional bandits (CCB) or slates; {EACH_SLOT}",
    "_slots": f"conditional bandits (CCB); {EACH_SLOT}",
    "_decisions": f"slates; {EACH_SLOT}",
    "_label_ca": "continuous actions (CATS); log one action of a list instead",
}
CHECKPOINT, SKIPPED, DANGLING = "checkpoints", "lines with _skipLearn", "rewards and observations without a decision"
MALFORMED, MOST_MALFORMED = "malformed lines", 0.01  # the largest share of such lines
LABEL_KEYS = {key.lower(): key for key in ("_label_Action", "_label_cost", "_label_probability", "_labelIndex")}


class DsjsonReader(TextReader):
    """Reader of dsjson. Its variant is the number from which actions are counted, 0 or 1."""

    name, title, suffixes = "dsjson", "a dsjson file", (".dsjson",)
    default_variant = 1

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return bool(EVENT.match(start))

    def detect_variant(self, lines: Lines) -> int | None:
        """Return the number from which actions are counted; None if no list ``a`` shows it."""
        for decision, event in islice(_decisions(lines, Counter()), MOST_TESTED):
            numbers = event.get("a")
            if isinstance(numbers, list) and (0 in numbers or len(decision.listed) in numbers):
                return 0 if 0 in numbers else 1
        return None

    def decisions(self, lines: Lines, variant: int) -> Iterator[Decision]:
        """Yield the decisions of a file, whose actions are counted from ``variant``.

        Raise InputError if a line is not a decision among listed actions, or if more than 1 % of the lines are not
        JSON. The message has the number of the line.
        """
        for decision, event in _decisions(lines, self.skipped):
            with prefix_errors(f"row {decision.row}"):
                if variant and isinstance(event.get("a"), list) and 0 in event["a"]:
                    raise InputError("'a' has the action 0, expected actions counted from 1, like in earlier lines")
                place = _place(event, len(decision.listed), variant)
                outcome = Outcome(place, _finite(event, "_label_cost"), _propensity(event, place + variant))
                dropped = to_float(event.get("pdrop", 0))
                if not 0 <= dropped < 1:
                    value = str(event["pdrop"])[:40]
                    raise InputError(f"pdrop is {value}, expected a number of at least 0 and below 1")
            yield decision._replace(outcome=outcome, weight=1 / (1 - dropped), event_id=str(event.get("EventId") or ""))

    def undecided(self, lines: Lines, encoding: Any) -> Iterator[Decision]:
        """Yield the contexts with their lists of actions, without outcomes; every line must be JSON."""
        return (decision for decision, _ in _decisions(lines, Counter(), learning=False))


def _decisions(lines: Lines, skipped: Counter, learning: bool = True) -> Iterator[tuple[Decision, dict]]:
    """Yield the decisions without outcomes, and the events that describe them."""
    n_lines, malformed = 0, []
    for row, line in lines:
        line = line.strip(b"\xef\xbb\xbf \t\r\n")
        n_lines += bool(line)
        if line.startswith(b"[CHECKPOINT"):
            skipped[CHECKPOINT] += 1
        elif line:
            with prefix_errors(f"row {row}"):
                event = _parsed(line)
                if isinstance(event, str) and learning:
                    malformed.append(f"row {row}: {event}")
                    skipped[MALFORMED] += 1
                    continue
                if isinstance(event, str):
                    raise InputError(f"{event}; correct or remove the line, since each line gets an action")
                context = _context(event, skipped, learning)
                if context is None:
                    continue
                decision = Decision(row, features(context), [features(action) for action in context["_multi"]])
            yield decision, event
    if len(malformed) > MOST_MALFORMED * n_lines:
        expected = f"at most {MOST_MALFORMED:.0%}"
        raise InputError(f"{malformed[0]}; {len(malformed)} of {n_lines} lines are malformed, expected {expected}")


def _parsed(line: bytes) -> dict | str:
    """Return the event of a line in the form of dsjson, or the reason why the line is not JSON."""
    try:
        event = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8"
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {str(error)[:100]}"
    if not isinstance(event, dict):
        return "is not a map in JSON, expected a decision on each line"
    if "c" in event or "_multi" not in event:
        return event
    label = event.get("_label")
    label = {f"_label_{key}": value for key, value in label.items()} if isinstance(label, dict) else {}
    labels = {LABEL_KEYS.get(key.lower(), key): value for key, value in (event | label).items() if key.startswith("_")}
    return {"c": event, **labels}


def _context(event: dict, skipped: Counter, learning: bool) -> dict | None:
    """Return the context of a decision with its list of actions.

    If the line is to be skipped, count it and return None.
    """
    if event.get("_skipLearn") is True and (learning or "c" not in event):
        skipped[SKIPPED] += 1
        return None
    if "c" not in event and ("RewardValue" in event or "Observations" in event):
        skipped[DANGLING] += 1
        return None
    context = event.get("c", {})
    if not isinstance(context, dict):
        raise InputError(f"'c' is of type {type(context).__name__}, expected a map")
    if unsupported := [key for key in UNSUPPORTED if key in event or key in context]:
        key = unsupported[0]
        raise InputError(f"has {key}, so it describes {UNSUPPORTED[key]}")
    if "c" not in event:
        raise InputError(
            "has no 'c', expected the context of a decision; or _multi, the list of actions, in lines of VW --json "
            "(write events of single actions as Vowpal Wabbit's text)"
        )
    actions = context.get("_multi")
    if not (isinstance(actions, list) and actions and all(isinstance(action, dict) for action in actions)):
        raise InputError("_multi is missing or not a list of maps, expected the features of each action")
    return context


def features(context: dict, namespace: str = "") -> Pairs:
    """Return named features as Vowpal Wabbit does.

    Text gives an indicator ``key=text``. A number is the value of the feature ``key``. True has the value 1. False,
    null and 0 are left out. NaN is a missing value. The words of ``_text`` are features; other keys with an underscore
    are ignored.
    """
    pairs: Pairs = []
    for key, value in context.items():
        if key == "_text" and isinstance(value, str):
            pairs += [(f"{namespace}{word}", 1.0) for word in value.split()]
        elif not key.startswith("_"):
            pairs += _features_of(value, f"{namespace}{key}")
    return pairs


def _features_of(value: Any, name: str) -> Pairs:
    if isinstance(value, str):
        return [(f"{name}={value}", 1.0)]
    if isinstance(value, dict):
        return features(value, f"{name}^")
    if isinstance(value, list):
        pairs: Pairs = []
        for at, entry in enumerate(value):
            pairs += _features_of(entry, name if isinstance(entry, str | dict | list) else f"{name}[{at}]")
        return pairs
    if isinstance(value, Real) and value != value:
        return [(name, nan)]
    return [(name, finite(value, name))] if value else []


def _finite(event: dict, key: str) -> float:
    if key not in event:
        raise InputError(f"has no {key}, expected a number")
    return finite(event[key], key)


def _place(event: dict, n_actions: int, first_action: int) -> int:
    """Return the place of the logged action in its list, from 0."""
    places = []
    for key, first in (("_label_Action", first_action), ("_labelIndex", 0)):
        if key in event:
            place = to_float(event[key]) - first
            if place not in range(n_actions):
                expected = f"a whole number from {first} to {n_actions - 1 + first}"
                raise InputError(f"{key} is {str(event[key])[:40]}, expected {expected}")
            places.append(int(place))
    if not places:
        raise InputError("has no _label_Action and no _labelIndex, expected the logged action")
    if min(places) < max(places):
        raise InputError(f"_label_Action and _labelIndex name actions {places[0]} and {places[-1]}, expected the same")
    return places[0]


def _propensity(event: dict, action: int) -> float:
    """Return the probability of the logged action, from ``p`` in the order of ``a`` or from the label.

    The logged action has a positive probability. Other actions may have probability 0, as in the logs of bagging
    explorers. The sum of ``p`` is at most 1, up to rounding to two digits.
    """
    stated = _finite(event, "_label_probability") if "_label_probability" in event else None
    if "p" not in event:
        if stated is None:
            raise InputError("has no 'p' and no _label_probability, expected the probability of the logged action")
        return stated
    actions, probabilities = event.get("a"), event["p"]
    if not (isinstance(actions, list) and isinstance(probabilities, list)):
        raise InputError("'a' or 'p' is not a list, expected actions and their probabilities")
    if len(actions) != len(probabilities):
        raise InputError(f"'a' has {len(actions)} entries and 'p' has {len(probabilities)}, expected the same number")
    if action not in actions:
        raise InputError(f"the logged action, {action}, is not in the list 'a'")
    logged = actions.index(action)
    for place, value in enumerate(probabilities):
        if not 0 <= to_float(value) <= LARGEST_PROBABILITY or (place == logged and not value):
            expected = "(0, 1] for the logged action" if place == logged else "[0, 1]"
            raise InputError(f"'p' has {str(value)[:40]!r}, expected a number in {expected}")
    total, propensity = sum(map(to_float, probabilities)), to_float(probabilities[logged])
    if total > 1 + ROUNDING * len(probabilities):
        raise InputError(f"'p' adds up to {total:g}, expected at most 1: it has one probability for each action in 'a'")
    if stated is not None and not abs(propensity - stated) <= 1e-3 * stated:
        raise InputError(
            f"_label_probability is {stated:g}, but the logged action has {propensity:g} in 'p'; "
            "'p' must be in the order of 'a'"
        )
    return propensity
