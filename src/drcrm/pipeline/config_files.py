"""Configuration files as they are written: what is in them, and what YAML passes over in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from snakemake.utils import update_config

from ..errors import InputError, printable
from .config import complete


def completed(project: Path, given: Mapping, files: Sequence[str | Path]) -> tuple[dict, dict]:
    """Return the project's configuration with what is given over it, as it is merged, and complete.

    Maps merge, lists replace. Of what is given, ``files`` is where it comes from.

    Raises
    ------
    InputError
        A line for each key that a file has twice, and for each error of ``complete``.
    """
    shipped = project / "config.yaml"
    schema = read_config(project / "workflow/schemas/config.schema.yaml")
    faults = [line for path in (shipped, *files) for line in _repeated(path)]
    update_config(merged := read_config(shipped), given)
    try:
        config = complete(merged, schema)
    except InputError as error:
        faults += error.args
    if faults:
        raise InputError(*faults)
    return merged, config


def read_configs(paths: Sequence[str | Path]) -> dict:
    """Return what configuration files have together; InputError has a line for each that cannot be read."""
    found, faults = {}, []
    for path in paths:
        try:
            update_config(found, read_config(path))
        except InputError as error:
            faults += error.args
    if faults:
        raise InputError(*faults)
    return found


def read_config(path: str | Path) -> dict:
    """Return what a configuration file has; InputError says in a line why it is none, with the file's line."""
    found = _parsed(path, yaml.load)
    if not isinstance(found, dict):
        what = "nothing" if found is None else "no keys"
        raise InputError(printable(f"{path}: {what} in it, expected those of a configuration"))
    return found


def _repeated(path: str | Path) -> Iterator[str]:
    """What to say of a YAML or JSON file with a map that has two keys of one name, a line for each."""
    for place, first, again in _doubles(_parsed(path, yaml.compose), [], set()):
        yield printable(f"{path}, line {again}: {place} is there twice, first in line {first}")


def _parsed(path: str | Path, parse: Callable) -> object:
    """What one of PyYAML's parsers makes of a file."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(printable(f"{path}: {(error.strerror or str(error)).lower()}")) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(printable(f"{path}{where}: not YAML: {problem}")) from None


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
