"""Checks of a mapping: repeated keys in its file, the schema of its values, and conflicts between its keys."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, reduce
from importlib import resources
from math import isfinite
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drcrm.errors import InputError, import_extra

if TYPE_CHECKING:
    from drcrm.mapping.log_mapping import LogMapping

MOST_NODES = 10**5  # values of a document, counted at each of their aliases
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")  # numbers of YAML 1.1
EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")  # numbers of YAML 1.2


def parse_yaml(text: str) -> object:
    """Return the content of YAML; InputError has a line for each repeated key, or explains why it is refused.

    YAML's parser silently keeps the last value of a repeated key. A number in base 60, such as 1:30, is refused, and so
    are aliases that expand to very many values. Numbers such as 1e-3 are numbers, as in YAML 1.2 and JSON; YAML 1.1
    reads a text.
    """
    yaml: Any = import_extra("yaml")
    repeated: list[tuple[int, str]] = []

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:  # the construction changes nodes with merged keys
            node, lines = super().compose_mapping_node(anchor), dict[str, int]()
            for key in [key for key, _ in node.value if key.id == "scalar"]:
                line = key.start_mark.line + 1
                if key.value in lines:
                    repeated.append((line, f"{key.value} occurs twice, first in line {lines[key.value]}"))
                lines.setdefault(key.value, line)
            return node

        def compose_scalar_node(self, anchor: Any) -> Any:
            node = super().compose_scalar_node(anchor)
            if node.tag.endswith((":int", ":float")) and BASE_60.fullmatch(node.value):
                line = node.start_mark.line + 1
                raise InputError(f"line {line}: YAML reads {node.value} as a number in base 60; write it in quotes")
            return node

        def get_single_node(self) -> Any:
            node = super().get_single_node()
            if node is not None:
                _count_nodes(node, {})
            return node

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])
    try:
        content = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{place}not YAML: {problem}") from None
    if repeated:
        raise InputError(*(f"line {line}: {message}" for line, message in sorted(repeated)))
    return content


def _count_nodes(node: Any, known: dict[int, int]) -> int:
    """Return the number of values below a YAML node; InputError if they are endless or too many.

    ``known`` has the numbers of the nodes that were counted before, so that aliases take no time.
    """
    if isinstance(node.value, str):
        return 1
    if id(node) in known:
        number = known[id(node)]
    else:
        known[id(node)] = MOST_NODES + 1  # of a node inside itself
        parts = [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
        number = known[id(node)] = 1 + sum(_count_nodes(part, known) for part in parts)
    if number > MOST_NODES:
        line = node.start_mark.line + 1
        raise InputError(f"line {line}: aliases must expand to at most {MOST_NODES} values; write them out")
    return number


def parse_json(text: str) -> object:
    """Return the content of JSON; InputError names a repeated key, or explains why the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}") from None


def _unique(members: list[tuple[str, object]]) -> dict[str, object]:
    names = Counter(name for name, _ in members)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise InputError(f"{repeated[0]} occurs twice in one map, expected once")
    return dict(members)


def read_content(path: Path) -> object:
    """Return the content of a YAML or JSON file."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text, expected a mapping in YAML or JSON") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a path
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    content = (parse_json if path.suffix == ".json" else parse_yaml)(text)
    if not isinstance(content, Mapping):
        raise InputError("has no mapping of keys such as action: item")
    return content


@cache
def _validator() -> Any:
    """Return the validator of the schema; it accepts all mappings and tuples; numbers are real and finite."""
    from drcrm.arrays.validation import to_float  # imports numpy, which commands without a mapping do not need

    jsonschema = import_extra("jsonschema")
    draft = jsonschema.Draft202012Validator
    checks = {
        "object": lambda _, value: isinstance(value, Mapping),
        "array": lambda _, value: isinstance(value, list | tuple),
        "number": lambda _, value: not isinstance(value, bool) and isfinite(to_float(value)),
    }
    validator = jsonschema.validators.extend(draft, type_checker=draft.TYPE_CHECKER.redefine_many(checks))
    schema = resources.files(__package__).joinpath("mapping.schema.json").read_text("utf-8")
    return validator(json.loads(schema))


def parse_texts(content: Any, errors: Iterable[Any]) -> None:
    """Replace the texts of a schema's errors by the numbers, truth values or nulls that YAML reads in them.

    Snakemake's ``--config`` passes nested values as text, and its YAML reads 1e-3 as text.
    """
    for error in errors:
        parse_texts(content, error.context)
        if isinstance(error.instance, str) and error.validator in ("type", "enum", "const", "not"):
            *path, key = error.absolute_path
            with suppress(InputError):
                value = parse_yaml(error.instance)
                if isinstance(value, int | float) or (value is None and error.instance):
                    reduce(getitem, path, content)[key] = value


def plain_copy(value: Any) -> Any:
    """Return a copy with dicts and lists in place of other mappings and of tuples."""
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    return [*map(plain_copy, value)] if isinstance(value, list | tuple) else value


def validate(content: Mapping, name: str) -> Mapping:
    """Return the content, with texts parsed; InputError for the first value that violates the schema."""
    written = content
    if errors := [*_validator().iter_errors(content)]:
        content = plain_copy(content)
        parse_texts(content, errors)
    for error in _validator().iter_errors(content):
        place = error.json_path.removeprefix("$").removeprefix(".") or name
        if error.validator == "additionalProperties":
            keys = error.schema["properties"]
            unknown = next(key for key in error.instance if key not in keys)
            example = f", in {error.schema['description']}" if error.path else ""
            raise InputError(f"{place} has the key {unknown!r}, expected only the keys {', '.join(keys)}{example}")
        is_key = "propertyNames" in error.absolute_schema_path
        value = error.instance if is_key else reduce(getitem, error.absolute_path, written)
        raise InputError(f"{place} is {value!r}, expected {error.schema['description']}")
    return content


VALIDATIONS = HOLDOUT, BLOCKS = "holdout", "blocks"
OUTCOMES = (  # keys whose columns are unknown when an action is chosen
    *("action", "labels", "list", "chosen", "propensity", "reward", "cost"),
    "candidate",
)
FEATURES = {"numeric": "numeric", "categorical": "categorical", "time": "times"}  # keys and attributes


def find_conflicts(mapping: LogMapping, has_null: bool, has_split: bool) -> Iterator[str]:
    """Yield a message for each conflict between keys."""
    for first, second in (("action", "labels"), ("reward", "cost"), ("action", "list"), ("labels", "list")):
        if getattr(mapping, first) and getattr(mapping, second):
            yield f"mapping has {first} and {second}, expected only one of them"
    for first, second in (("list", "chosen"), ("chosen", "list")):
        if getattr(mapping, first) and not getattr(mapping, second):
            yield f"mapping has {first}, but no {second}: a row for each candidate of a list needs both columns"
    (kind, share), (low, high) = mapping.split_rule, mapping.cost_range or (0, 1)
    known = "a column" if mapping.propensity else "known" if mapping.known_propensity else None
    split = f"split is {mapping.split!r}"
    conflicts = {
        "propensity is null; name a column, or add propensity_model: auto": has_null and not mapping.propensity_model,
        f"propensity_model is {mapping.propensity_model!r}, but propensity is {known}; expected only one of them": known
        and mapping.propensity_model,
        "limits and budget need one of K actions per row, but the mapping has labels or a list; remove the limits": (
            mapping.limits and (mapping.labels or mapping.list)
        ),
        "propensity is a rule, but the actions are label vectors; expected action or list, or a column": mapping.rule
        and mapping.labels,
        "propensity has weights, so the mapping must have action; weights of labels and lists cannot be read": (
            mapping.weights and not mapping.action
        ),
        f"{split}, but validation: blocks holds out no rows: remove one of them": has_split
        and mapping.validation == BLOCKS,
        f"deploy is {mapping.deploy!r}, but only validation: blocks has policies of blocks: set both, or neither": (
            mapping.deploy is not None and mapping.validation != BLOCKS
        ),
        f"{split}, expected a text such as 'random 25 %', with a share between 0 and 100 %": not 0 < share < 1,
        f"{split}, but the mapping has no group; name the column of the groups": kind == "group" and not mapping.group,
        f"cost_range is {[low, high]!r}, expected [least, largest], with least < largest": not low < high,
    }
    yield from (message for message, holds in conflicts.items() if holds)
    try:
        codecs.lookup(mapping.encoding or "utf8")
    except LookupError:
        yield f"encoding is {mapping.encoding!r}, expected an encoding such as 'cp1252', 'latin-1' or 'utf-16'"
    yield from _shared_columns(mapping)


def _shared_columns(mapping: LogMapping) -> Iterator[str]:
    """Yield a message for each column with two meanings; only ``time`` and the rule may also be features."""
    outcomes = [(key, getattr(mapping, key) or ()) for key in OUTCOMES]
    outcomes.append(("the outcome of a guardrail", mapping.guardrail_columns))
    outcomes.append(("weights of propensity", mapping.weights or ()))
    features = [(f"a {key} feature", getattr(mapping, attribute) or ()) for key, attribute in FEATURES.items()]
    alone = [[*outcomes, (key, column or ())] for key, column in (("time", mapping.time), ("rule", mapping.rule))]
    alone.append([*features, ("the price of budget", mapping.price_column or ())])
    for roles in ([*outcomes, ("id", mapping.id or ()), *features], *alone):
        role_of: dict[str, str] = {}
        for role, columns in roles:
            for column in [columns] if isinstance(columns, str) else columns:
                if role_of.setdefault(column, role) != role:
                    yield f"{column!r} is {role_of[column]} and {role}, expected a different column for each"
