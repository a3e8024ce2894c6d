"""Vowpal Wabbit's text of contextual bandits: ``action:cost:probability | features``, and blocks of listed actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..errors import InputError, located
from .mapping import LogMapping
from .named import Lists, Named
from .records import Records

Pairs = list[tuple[str, float]]
LABEL = re.compile(r"(\d{1,9}):([^:\s]+):([^:\s]+)")
BARE = re.compile(r"\d{1,9}(:[^:\s]+)?")
SHARED = "shared"
UNLABELLED = "blocks without a label"


@dataclass(frozen=True)
class Line:
    """A line: its label, (action, cost, probability), and its features."""

    row: int
    is_shared: bool
    label: tuple[int, float, float] | None
    features: Pairs


def read_vw(lines: Iterable[bytes], mapping: LogMapping, limit: int | None = None) -> Records:
    """Return the rows of text: of listed actions where lines stand in blocks, one action a line of a block; else of
    single actions, numbered from 1.

    Raises
    ------
    InputError
        A line that is no such text, with its number, from 0.
    """
    mapping = mapping.require_no_columns("Vowpal Wabbit's text")
    blocks = _blocks(lines)
    if not any(map(len, blocks)):
        raise InputError("is empty, expected lines such as 1:-1:0.5 | features")
    return (_listed if _has_lists(blocks) else _single)(blocks, mapping, limit)


def vw_contexts(lines: Iterable[bytes], of_lists: bool, limit: int | None = None) -> Lists | Named:
    """Return the contexts of text, whatever their labels."""
    blocks = _blocks(lines)
    if not blocks:
        raise InputError("has no contexts, expected at least one")
    if of_lists:
        return _lists(blocks[:limit])
    return Named.of(line.features for line in islice((line for block in blocks for line in block), limit))


def _blocks(lines: Iterable[bytes]) -> list[list[Line]]:
    """The lines between empty ones."""
    blocks: list[list[Line]] = [[]]
    for row, line in enumerate(lines):
        with located(f"row {row}"):
            text = _text(line)
            if text:
                blocks[-1].append(_line(row, text))
            elif blocks[-1]:
                blocks.append([])
    return [block for block in blocks if block]


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").strip(" \t\r\n\ufeff")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8") from None


def _has_lists(blocks: list[list[Line]]) -> bool:
    return any(line.is_shared or line.label is None for block in blocks for line in block)


def _listed(blocks: list[list[Line]], mapping: LogMapping, limit: int | None) -> Records:
    kept, chosen = [], []
    for block in blocks:
        with located(f"row {block[0].row}"):
            places = [at for at, line in enumerate(_actions(block)) if line.label]
            if len(places) > 1:
                raise InputError(f"its block has {len(places)} labels, expected one")
        if places and (limit is None or len(kept) < limit):
            kept.append(block)
            chosen.append(places[0])
    lacking = sum(not any(line.label for line in block) for block in blocks)
    labels = [_actions(block)[at].label for block, at in zip(kept, chosen, strict=True)]
    skipped = Counter({UNLABELLED: lacking} if lacking else {})
    rows = [block[0].row for block in kept]
    return _records(mapping, "lists", [], _lists(kept), np.array(chosen, dtype=np.intp), labels, rows, skipped)


def _single(blocks: list[list[Line]], mapping: LogMapping, limit: int | None) -> Records:
    lines = [line for block in blocks for line in block][:limit]
    for line in lines:
        if line.label[0] == 0:
            raise InputError(f"row {line.row}: the action is 0, expected 1 or more")
    action = np.array([line.label[0] for line in lines], dtype=np.intp) - 1
    names = list(range(1, int(action.max(initial=0)) + 2))
    if len(names) > 1000 and len(names) > 10 * len(lines):
        raise InputError(f"actions reach {len(names)} in {len(lines)} rows, expected them numbered from 1")
    data = Named.of(line.features for line in lines)
    return _records(mapping, "single", names, data, action, [line.label for line in lines], [e.row for e in lines], {})


def _records(mapping: LogMapping, kind: str, names: list, data, action, labels, rows, skipped) -> Records:
    imitated = mapping.propensity_model is not None
    return Records(
        format="vw",
        mapping=mapping,
        kind=kind,
        names=names,
        data=data,
        action=action,
        cost=np.array([cost for _, cost, _ in labels], dtype=float),
        reward=False,
        propensity=None if imitated else np.array([p for *_, p in labels], dtype=float),
        context=np.arange(len(labels)),
        rows=np.array(rows, dtype=np.intp),
        skipped=dict(skipped),
    )


def _actions(block: list[Line]) -> list[Line]:
    """The lines of a block's actions."""
    actions = block[1:] if block[0].is_shared else block
    if not actions or any(line.is_shared for line in actions):
        raise InputError("its block has no actions, or more than one shared line, expected shared once, and actions")
    return actions


def _lists(blocks: list[list[Line]]) -> Lists:
    shared, own, sizes = [], [], []
    for block in blocks:
        with located(f"row {block[0].row}"):
            actions = _actions(block)
        shared.append(block[0].features if block[0].is_shared else [])
        own += [line.features for line in actions]
        sizes.append(len(actions))
    return Lists(Named.of(shared), Named.of(own), np.append(0, np.cumsum(sizes, dtype=np.intp)))


def _line(row: int, text: str) -> Line:
    if text.startswith("{"):
        raise InputError("is JSON, expected text such as 1:-1:0.5 | features; dsjson ends in .json or .dsjson")
    before, bar, after = text.partition("|")
    tokens = before.split()
    if tokens and not before.endswith((" ", "\t")) and not _is_label(tokens[-1]) and bar:
        tokens.pop()  # a tag
    tokens = [token for token in tokens if not token.startswith("'")]
    is_shared = tokens == [SHARED]
    return Line(row, is_shared, None if is_shared else _label(tokens), _features(f"|{after}") if bar else [])


def _is_label(token: str) -> bool:
    return token == SHARED or bool(LABEL.fullmatch(token) or BARE.fullmatch(token))


def _label(tokens: list[str]) -> tuple[int, float, float] | None:
    if not tokens:
        return None
    match = LABEL.fullmatch(tokens[0]) if len(tokens) == 1 else None
    if not match:
        shown = " ".join(tokens)[:60]
        raise InputError(f"its label is {shown!r}, expected one action:cost:probability (a list has the eligible ones)")
    return int(match[1]), _number(match[2], "its cost"), _number(match[3], "its probability")


def _features(text: str) -> Pairs:
    """The features of ``|namespace:weight name name:value …``, each of its namespace."""
    found: Pairs = []
    for part in text.split("|")[1:]:
        space, weight = "", 1.0
        words = part.split()
        if words and not part[0].isspace():
            space, weight = _named(words.pop(0))
        found += [(f"{space}^{name}", weight * value) for name, value in map(_named, words)]
    return [(name, value) for name, value in found if value]


def _named(word: str) -> tuple[str, float]:
    name, *values = word.split(":")
    if len(values) > 1:
        raise InputError(f"{word[:60]!r} is no feature, expected name or name:value")
    return name, _number(values[0], word[:60]) if values else 1.0


def _number(text: str, name: str) -> float:
    try:
        value = float(text) if "_" not in text else np.nan
    except ValueError:
        value = np.nan
    if not abs(value) < np.inf:
        raise InputError(f"{name} is {text[:40]!r}, expected a finite number")
    return value
