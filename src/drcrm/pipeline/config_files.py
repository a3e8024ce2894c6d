"""Configuration files as they are written: YAML keeps the last of two keys with one name, and says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from ..errors import InputError, printable


def check_names(path: str | Path) -> None:
    """Raise an InputError with the key and both lines if a map of a YAML or JSON file has two keys with one name."""
    with open(path, encoding="utf-8") as stream:
        try:
            root = yaml.compose(stream, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise InputError(printable(f"{path}: not YAML: {' '.join(str(error).split())}")) from None
    for place, first, again in _doubles(root, [], set()):
        raise InputError(printable(f"{path}, line {again}: {place} is there twice, first in line {first}"))


def _doubles(node: yaml.Node | None, path: list[str], seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """The keys that come twice, as paths, with the lines of the two, in the order of the file."""
    if node is None or id(node) in seen:  # an alias leads to what was seen
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, each in enumerate(node.value):
            yield from _doubles(each, [*path, str(index)], seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines and isinstance(key, yaml.ScalarNode):
                yield ".".join([*path, name]), lines[name], line
            lines.setdefault(name, line)
            yield from _doubles(value, [*path, name], seen)
