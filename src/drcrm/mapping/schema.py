"""Content of a mapping's file, and its validation by ``mapping.schema.json``."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, reduce
from importlib import resources
from math import isfinite
from operator import getitem
from pathlib import Path
from typing import Any

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, import_extra
from drcrm.mapping.unique_keys import parse_json, parse_yaml


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


def parse_texts(content: dict | list, errors: Iterable[Any]) -> None:
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


def _copy(value: Any) -> Any:
    """Return a copy with dicts and lists in place of other mappings and of tuples."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [*map(_copy, value)] if isinstance(value, list | tuple) else value


def validate(content: Mapping, name: str) -> Mapping:
    """Return the content, with texts parsed; InputError for the first value that violates the schema."""
    written = content
    if errors := [*_validator().iter_errors(content)]:
        content = _copy(content)
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
