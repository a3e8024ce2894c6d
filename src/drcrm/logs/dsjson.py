"""Vowpal Wabbit's dsjson: a line of JSON for each decision, with the context's list of actions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..core.validation import number
from ..errors import InputError, located
from .mapping import LogMapping
from .named import Lists, Named
from .records import Records

Pairs = list[tuple[str, float]]
OTHERS = {
    "_outcomes": "conditional bandits (CCB) or slates",
    "_slots": "conditional bandits (CCB)",
    "_decisions": "slates",
    "_label_ca": "continuous actions (CATS)",
}
CHECKPOINT, SKIPPED, DANGLING = "checkpoints", "lines with _skipLearn", "rewards and observations without a decision"


@dataclass(frozen=True)
class Event:
    """A decision: what was known, and what became of it."""

    row: int
    shared: Pairs
    own: list[Pairs]
    said: dict


def read_dsjson(lines: Iterable[bytes], mapping: LogMapping, limit: int | None = None) -> Records:
    """Return the decisions of lines of dsjson.

    Where ``pdrop`` differs between the lines, each counts 1/(1 − pdrop) times, relative to the least and rounded to a
    whole number at random (seed 0), so that its expectation is that: means over the rows are then of what was there
    before lines were dropped. What does not differ cancels.

    Raises
    ------
    InputError
        A line that is no JSON, or no decision among listed actions, with its number, from 0.
    """
    mapping = mapping.require_no_columns("a dsjson file")
    skipped: Counter[str] = Counter()
    events = list(islice(_events(lines, skipped), limit))
    base = 0 if any(0 in _as_list(event.said.get("a")) for event in events) else 1
    costs, chosen, propensities, weights = [], [], [], []
    for event in events:
        with located(f"row {event.row}"):
            place = _chosen(event, base)
            chosen.append(place)
            costs.append(_required(event.said, "_label_cost"))
            propensities.append(_propensity(event.said, place + base))
            weights.append(_weight(event.said))
    imitated = mapping.propensity_model is not None
    return Records(
        format="dsjson",
        mapping=mapping,
        kind="lists",
        names=[],
        data=lists_of(events),
        action=np.array(chosen, dtype=np.intp),
        cost=np.array(costs, dtype=float),
        reward=False,
        propensity=None if imitated else np.array(propensities, dtype=float),
        context=np.arange(len(events)),
        rows=np.array([event.row for event in events], dtype=np.intp),
        skipped=dict(skipped),
        count=_counts(np.array(weights, dtype=float)),
    )


def dsjson_contexts(lines: Iterable[bytes], limit: int | None = None) -> Lists:
    """Return the lists of actions of lines of dsjson, whatever they say of what was chosen."""
    found = list(islice(_events(lines, Counter(), learning=False), limit))
    if not found:
        raise InputError("has no contexts, expected at least one")
    return lists_of(found)


def lists_of(events: list[Event]) -> Lists:
    starts = np.append(0, np.cumsum([len(event.own) for event in events], dtype=np.intp))
    return Lists(
        Named.of(event.shared for event in events), Named.of(own for event in events for own in event.own), starts
    )


def _events(lines: Iterable[bytes], skipped: Counter, learning: bool = True) -> Iterator[Event]:
    for row, line in enumerate(lines):
        line = line.strip(b"\xef\xbb\xbf \t\r\n")
        if line.startswith(b"[CHECKPOINT"):
            skipped[CHECKPOINT] += 1
        elif line:
            with located(f"row {row}"):
                event = _event(row, line, skipped, learning)
            if event:
                yield event


def _event(row: int, line: bytes, skipped: Counter, learning: bool) -> Event | None:
    """The decision of a line; None where it is of none, which is counted."""
    said = _parsed(line)
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
    return Event(row, features(context), [features(each) for each in actions], said)


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
        if not abs(number(value)) < np.inf:
            raise InputError(f"{name} is {str(value)[:40]}, expected a finite number")
        found.append((name, float(value)))


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else []


def _required(said: dict, key: str) -> float:
    if key not in said:
        raise InputError(f"has no {key}, expected a number")
    if not abs(number(said[key])) < np.inf:
        raise InputError(f"{key} is {str(said[key])[:40]!r}, expected a finite number")
    return float(said[key])


def _chosen(event: Event, base: int) -> int:
    """The place of the chosen action in its list, from 0."""
    said, places = event.said, []
    for key, first in (("_label_Action", base), ("_label_action", base), ("_labelIndex", 0)):
        if key in said:
            place = number(said[key]) - first
            if not (0 <= place < len(event.own) and place == int(place)):
                last = len(event.own) - 1 + first
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
    found = number(probabilities[actions.index(label)])
    if stated is not None and not abs(found - stated) <= 1e-3 * stated:
        raise InputError(
            f"_label_probability is {stated:g}, but p of the action chosen {found:g}; p stands in a's order"
        )
    return found


def _weight(said: dict) -> float:
    """How many lines a line stands for, 1/(1 − pdrop)."""
    dropped = number(said.get("pdrop", 0))
    if not 0 <= dropped < 1:
        raise InputError(f"pdrop is {str(said['pdrop'])[:40]}, expected a number from 0 to below 1")
    return 1 / (1 - dropped)


def _counts(weights: np.ndarray) -> np.ndarray | None:
    """Weights relative to the least, as whole numbers of that expectation; None where all are the same."""
    if not len(weights) or np.ptp(weights) <= 1e-9 * weights.max():
        return None
    exact = weights / weights.min()
    exact = np.where(abs(exact - np.round(exact)) < 1e-6 * exact, np.round(exact), exact)
    whole = np.floor(exact)
    return (whole + (np.random.default_rng(0).random(len(exact)) < exact - whole)).astype(np.intp)
