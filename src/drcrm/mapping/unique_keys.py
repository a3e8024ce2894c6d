"""YAML and JSON in which a repeated key is an error; their parsers silently keep the last value.

YAML is also refused if its aliases expand to very many values, and if a number is in base 60, such as 1:30. Numbers
such as 1e-3 are numbers, as in YAML 1.2 and JSON; YAML 1.1 reads a text.
"""

import json
import re
from typing import Any

from drcrm.errors import InputError, import_extra

MOST_NODES = 10**5  # values of a document, counted at each of their aliases
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")  # numbers of YAML 1.1
EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")  # numbers of YAML 1.2


def parse_yaml(text: str) -> object:
    """Return the content of YAML; InputError has a line for each repeated key, or explains why it is refused."""
    yaml, repeated = import_extra("yaml"), []

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:  # the construction changes nodes with merged keys
            node, lines = super().compose_mapping_node(anchor), {}
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
    content: dict[str, object] = {}
    for key, value in members:
        if key in content:
            raise InputError(f"{key} occurs twice in one map, expected once")
        content[key] = value
    return content
