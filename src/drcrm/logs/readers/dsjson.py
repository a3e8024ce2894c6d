"""Vowpal Wabbit's dsjson: a line of JSON for each decision, with the context's list of actions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.named_features import Pairs
from drcrm.logs.readers.decisions import Decision

Lines = Iterable[tuple[int, bytes]]
CALLED = "a dsjson file"
USUAL = 1  # the number of the first action
ROUNDED = 0.005  # the most that a probability moves if it is rounded to two digits
FEW = 1000  # decisions among which one tells from which number on actions are counted
OTHERS = {
    "_outcomes": "conditional bandits (CCB) or slates",
    "_slots": "conditional bandits (CCB)",
    "_decisions": "slates",
    "_label_ca": "continuous actions (CATS)",
}
CHECKPOINT, SKIPPED, DANGLING = "checkpoints", "lines with _skipLearn", "rewards and observations without a decision"


def way_of(lines: Lines) -> int | None:
    """Return from which number on actions are counted, 0 or 1: the first list ``a`` that can tell says so, if any."""
    for decision, said in islice(_decisions(lines, Counter()), FEW):
        numbers = _as_list(said.get("a"))
        if 0 in numbers or len(decision.listed) in numbers:
            return 0 if 0 in numbers else 1
    return None


def decisions(lines: Lines, base: int, skipped: Counter) -> Iterator[Decision]:
    """Give the decisions of lines of dsjson, and count those that are none.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        With their numbers.
    base : int
        Of the first action, as ``way_of`` tells it.
    skipped : Counter
        To which is added, by reason.

    Raises
    ------
    InputError
        A line that is no JSON, or no decision among listed actions, with its number.
    """
    for decision, said in _decisions(lines, skipped):
        with prefix_errors(f"row {decision.row}"):
            if base and 0 in _as_list(said.get("a")):
                raise InputError("a has 0, expected actions counted from 1, as in the lines before")
            place = _chosen(decision, said, base)
            label = place, _required(said, "_label_cost"), _propensity(said, place + base)
            weight = _weight(said)
        yield decision._replace(label=label, weight=weight)


def contexts(lines: Lines, of_lists: bool) -> Iterator[Decision]:
    """Give the lists of actions of lines of dsjson, whatever they say of what was chosen."""
    return (decision for decision, _ in _decisions(lines, Counter(), learning=False))


def _decisions(lines: Lines, skipped: Counter, learning: bool = True) -> Iterator[tuple[Decision, dict]]:
    """The decisions, without what became of them, and all that their lines say."""
    for row, line in lines:
        line = line.strip(b"\xef\xbb\xbf \t\r\n")
        if line.startswith(b"[CHECKPOINT"):
            skipped[CHECKPOINT] += 1
        elif line:
            with prefix_errors(f"row {row}"):
                said = _parsed(line)
                context = _context(said, skipped, learning)
                if context is None:
                    continue
                listed = [features(each) for each in context["_multi"]]
                decision = Decision(row, features(context), listed)
            yield decision, said


def _context(said: dict, skipped: Counter, learning: bool) -> dict | None:
    """The context of a decision, with its list of actions; None where a line is of none, which is counted."""
    has_context = "c" in said or "_multi" in said
    if said.get("_skipLearn") is True and (learning or not has_context):
        skipped[SKIPPED] += 1
        return None
    if not has_context:
        if "RewardValue" in said or "Observations" in said:
            skipped[DANGLING] += 1
            return None
        for key, called in OTHERS.items():
            if key in said:
                raise InputError(f"is of {called}, expected one action of a list ({key} is not read)")
        raise InputError("has no c, expected the context of a decision")
    context = said.get("c", said)
    if not isinstance(context, dict):
        raise InputError(f"c is of type {type(context).__name__}, expected a map")
    for key, called in OTHERS.items():
        if key in said or key in context:
            raise InputError(f"is of {called}, expected one action of a list ({key} is not read)")
    actions = context.get("_multi")
    if not (isinstance(actions, list) and actions and all(isinstance(each, dict) for each in actions)):
        raise InputError("_multi is missing, or no list of maps, expected the features of each action")
    return context


def _parsed(line: bytes) -> dict:
    try:
        said = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {str(error)[:100]}") from None
    if not isinstance(said, dict):
        raise InputError("is not a map in JSON, expected a decision a line")
    return said


def features(context: dict, name: str = "") -> Pairs:
    """Return named features: a text is a category of its key, a number a value, true 1, false and null nothing."""
    found: Pairs = []
    for key, value in context.items():
        if key == "_text" and isinstance(value, str):
            found += [(f"{name}{word}", 1.0) for word in value.split()]
        elif not key.startswith("_"):
            _gather(value, f"{name}{key}", found)
    return found


def _gather(value: object, name: str, found: Pairs) -> None:
    """Add the features of a value to those found."""
    if isinstance(value, str):
        found.append((f"{name}={value}", 1.0))
    elif isinstance(value, dict):
        found += features(value, f"{name}^")
    elif isinstance(value, list):
        for at, each in enumerate(value):
            inside = isinstance(each, str | dict | list)
            _gather(each, name if inside else f"{name}[{at}]", found)
    elif value:
        if not abs(to_float(value)) < np.inf:
            raise InputError(f"{name} is {str(value)[:40]}, expected a finite number")
        found.append((name, float(value)))


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else []


def _required(said: dict, key: str) -> float:
    if key not in said:
        raise InputError(f"has no {key}, expected a number")
    if not abs(to_float(said[key])) < np.inf:
        raise InputError(f"{key} is {str(said[key])[:40]!r}, expected a finite number")
    return float(said[key])


def _chosen(decision: Decision, said: dict, base: int) -> int:
    """The place of the chosen action in its list, from 0."""
    places = []
    for key, first in (("_label_Action", base), ("_label_action", base), ("_labelIndex", 0)):
        if key in said:
            place = to_float(said[key]) - first
            if not (0 <= place < len(decision.listed) and place == int(place)):
                last = len(decision.listed) - 1 + first
                raise InputError(f"{key} is {str(said[key])[:40]}, expected a whole number from {first} to {last}")
            places.append(int(place))
    if not places:
        raise InputError("has no _label_Action and no _labelIndex, expected the action that was chosen")
    if min(places) < max(places):
        raise InputError(f"_label_Action and _labelIndex are of actions {places[0]} and {places[-1]}, expected one")
    return places[0]


def _propensity(said: dict, label: int) -> float:
    """p of the action chosen, of those that stand beside ``a``; or else of the label itself."""
    stated = _required(said, "_label_probability") if "_label_probability" in said else None
    if "p" not in said:
        if stated is None:
            raise InputError("has no p and no _label_probability, expected the probability of the action chosen")
        return stated
    actions, probabilities = said.get("a"), said["p"]
    if not (isinstance(actions, list) and isinstance(probabilities, list)):
        raise InputError("a or p is no list, expected actions and their probabilities")
    if len(actions) != len(probabilities):
        raise InputError(f"a has {len(actions)} entries, p {len(probabilities)}, expected as many")
    if label not in actions:
        raise InputError(f"the action chosen, {label}, is not in a")
    place = actions.index(label)
    _require_probabilities(probabilities, place)
    found = to_float(probabilities[place])
    if stated is not None and not abs(found - stated) <= 1e-3 * stated:
        raise InputError(
            f"_label_probability is {stated:g}, but p of the action chosen {found:g}; p stands in a's order"
        )
    return found


def _require_probabilities(probabilities: list, chosen: int) -> None:
    """Raise InputError unless p has probabilities of one draw: their sum is at most 1, up to rounding to 2 digits.

    Only an action that was not chosen may have 0: VW's explorers by bags, or without exploration, log such actions.
    """
    for place, value in enumerate(probabilities):
        if not 0 <= to_float(value) <= 1 or (place == chosen and not value):
            expected = "(0, 1] for the action chosen" if place == chosen else "[0, 1]"
            raise InputError(f"p has {str(value)[:40]!r}, expected a number in {expected}")
    total, most = sum(map(to_float, probabilities)), 1 + ROUNDED * len(probabilities)
    if total > most:
        raise InputError(f"p adds up to {total:g}, expected at most 1: it has a probability for each action of a")


def _weight(said: dict) -> float:
    """How many lines a line stands for, 1/(1 − pdrop)."""
    dropped = to_float(said.get("pdrop", 0))
    if not 0 <= dropped < 1:
        raise InputError(f"pdrop is {str(said['pdrop'])[:40]}, expected a number from 0 to below 1")
    return 1 / (1 - dropped)
