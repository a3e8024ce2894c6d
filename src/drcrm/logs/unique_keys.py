"""YAML and JSON in which a key must not occur twice: their parsers keep the last value without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module

from drcrm.errors import InputError


def parse_yaml(text: str) -> object:
    """Return what YAML has; InputError has a line for each key that occurs twice, or says why it is not YAML."""
    value = load_yaml(text)
    if repeated := repeated_keys(text):
        raise InputError(*repeated)
    return value


def parse_json(text: str) -> object:
    """Return what JSON has; InputError names a key that occurs twice, or says why the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}") from None


def _unique(members: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in members:
        if key in content:
            raise InputError(f"{key} is there twice in one map")
        content[key] = value
    return content


def load_yaml(text: str) -> object:
    """Return what YAML has, of a key that occurs twice the last value; InputError says why it is not YAML."""
    return _by_parser("load", text)


def repeated_keys(text: str) -> list[str]:
    """Return a sentence for each key that occurs twice in YAML, with its path; InputError as ``load_yaml``."""
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


def _repeated_in_yaml(node, path: list[str], seen: set[int]) -> Iterator[str]:
    """Yield a sentence for each key that occurs twice below a node of PyYAML's."""
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
                yield f"line {line}: {'.'.join([*path, name])} is there twice, first in line {lines[name]}"
            lines.setdefault(name, line)
            yield from _repeated_in_yaml(value, [*path, name], seen)
