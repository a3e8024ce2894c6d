"""Content of a mapping's file, and its validation by ``mapping.schema.json``."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from numbers import Real
from pathlib import Path
from typing import Any

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
    """Return the validator of the schema; it accepts every mapping, tuple and real number."""
    jsonschema = import_extra("jsonschema")
    draft = jsonschema.Draft202012Validator
    types = {"object": Mapping, "array": (list, tuple), "number": Real}
    checks = {name: lambda _, value, type_=type_: isinstance(value, type_) for name, type_ in types.items()}
    validator = jsonschema.validators.extend(draft, type_checker=draft.TYPE_CHECKER.redefine_many(checks))
    schema = resources.files(__package__).joinpath("mapping.schema.json").read_text("utf-8")
    return validator(json.loads(schema))


def validate(content: Mapping, name: str) -> None:
    """Raise InputError for the first value that violates the schema."""
    for error in _validator().iter_errors(content):
        place = error.json_path.removeprefix("$").removeprefix(".") or name
        if error.validator == "additionalProperties":
            keys = error.schema["properties"]
            unknown = next(key for key in error.instance if key not in keys)
            example = f", in {error.schema['description']}" if error.path else ""
            raise InputError(f"{place} has the key {unknown!r}, expected only the keys {', '.join(keys)}{example}")
        raise InputError(f"{place} is {error.instance!r}, expected {error.schema['description']}")
