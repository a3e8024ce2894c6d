"""YAML and JSON in which a repeated key is an error; their parsers silently keep the last value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from drcrm.errors import InputError, import_extra


def parse_yaml(text: str) -> object:
    """Return the content of YAML; InputError has a line for each repeated key, or explains why it is not YAML."""
    yaml = import_extra("yaml")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        repeated = [*_repeated_below(node, [], set())]  # before the construction, which changes the node
        content = None if node is None else yaml.SafeLoader("").construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{place}not YAML: {problem}") from None
    if repeated:
        raise InputError(*repeated)
    return content


def parse_json(text: str) -> object:
    """Return the content of JSON; InputError names a repeated key, or explains why the text is not JSON."""
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
            raise InputError(f"{key} occurs twice in one map, expected once")
        content[key] = value
    return content


def _repeated_below(node: Any, path: list[str], seen: set[int]) -> Iterator[str]:
    """Yield a message for each repeated key below a node of PyYAML."""
    if node is None or id(node) in seen:  # an alias repeats a node
        return
    seen.add(id(node))
    if node.id == "sequence":
        for index, item in enumerate(node.value):
            yield from _repeated_below(item, [*path, str(index)], seen)
    elif node.id == "mapping":
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines and key.id == "scalar":
                yield f"line {line}: {'.'.join([*path, name])} occurs twice, first in line {lines[name]}"
            lines.setdefault(name, line)
            yield from _repeated_below(value, [*path, name], seen)
