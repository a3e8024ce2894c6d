"""YAML and JSON in which a key must not occur twice: their parsers keep the last value without a word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from .errors import InputError

# A string with what tells a key from a value, or the beginning or end of a map.
TOKEN = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>\s*:)?|[{}]')


class Repeated(NamedTuple):
    """A key that occurs twice in a map, with the lines of both."""

    key: str
    first: int
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.key} is there twice, first in line {self.first}"


def parse_yaml(text: str) -> object:
    """Return what YAML has; InputError has a line for each key that occurs twice, or says why it is not YAML."""
    value = load_yaml(text)
    if repeated := repeated_keys(text):
        raise InputError(*map(str, repeated))
    return value


def parse_json(text: str) -> object:
    """Return what JSON has; InputError has a line for each key that occurs twice, or says why it is not JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}") from None
    if repeated := [*_repeated_in_json(text)]:
        raise InputError(*map(str, repeated))
    return value


def load_yaml(text: str) -> object:
    """Return what YAML has, of a key that occurs twice the last value; InputError says why it is not YAML."""
    return _by_parser("load", text)


def repeated_keys(text: str) -> list[Repeated]:
    """Return the keys that occur twice in YAML, as paths, in the order of the text; InputError as ``load_yaml``."""
    return [*_repeated_in_yaml(_by_parser("compose", text), [], set())]


def _by_parser(name: str, text: str) -> object:
    """Return what one of PyYAML's parsers makes of a text."""
    yaml = import_module("yaml")  # of an extra: the library does without
    try:
        return getattr(yaml, name)(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{where}not YAML: {problem}") from None


def _repeated_in_yaml(node, path: list[str], seen: set[int]) -> Iterator[Repeated]:
    """Yield the keys that occur twice below a node of PyYAML's."""
    if node is None or id(node) in seen:  # an alias repeats a node
        return
    seen.add(id(node))
    if node.id == "sequence":
        for index, item in enumerate(node.value):
            yield from _repeated_in_yaml(item, [*path, str(index)], seen)
    elif node.id == "mapping":
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines and key.id == "scalar":
                yield Repeated(".".join([*path, name]), lines[name], line)
            lines.setdefault(name, line)
            yield from _repeated_in_yaml(value, [*path, name], seen)


def _repeated_in_json(text: str) -> Iterator[Repeated]:
    """Yield the keys that occur twice in valid JSON, without their paths."""
    maps: list[dict[str, int]] = []
    for token in TOKEN.finditer(text):
        if token[0] == "{":
            maps.append({})
        elif token[0] == "}":
            maps.pop()
        elif token["colon"]:
            name, line = json.loads(token["text"]), text.count("\n", 0, token.start()) + 1
            if name in maps[-1]:
                yield Repeated(name, maps[-1][name], line)
            maps[-1].setdefault(name, line)
