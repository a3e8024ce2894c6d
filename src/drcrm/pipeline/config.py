"""The configuration: checked against its schema and in itself, with defaults filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from difflib import get_close_matches
from itertools import product

import jsonschema

from ..errors import InputError, located, printable
from ..registry import PAPERS, SCORES, STARTS, find_estimator
from .lookups import all_starts
from .names import check_file_name

SPARE_COLOURS = ("#882255", "#44AA99", "#999933", "#332288")
DEEPEST = 20  # keys over one another in a configuration
SPARE_MARKERS = "*hpd<>HX"

_TYPES = {
    "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda _, value: isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf,
}


def _pattern(validator, pattern: str, value: object, _: Mapping):
    """A pattern of the schema, in which $ is the end, not what is before a last line break; its description says it."""
    if validator.is_type(value, "string") and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not fit")


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {"pattern": _pattern},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(_TYPES),  # 2.0 is no count, NaN no number
)


def complete(config: Mapping, schema: Mapping) -> dict:
    """Return a configuration with every default filled in; InputError names the key that is wrong and what is allowed.

    Text counts as the number or truth value that it spells where the schema wants one: Snakemake's --config gives
    nested values as text, and YAML reads 1e-5 as text.

    An experiment's ablation adds its algorithms from other starts.

    Beyond the schema it checks that the data sets, algorithms, experiments and scores that are named exist, and that an
    algorithm's parameters are its estimator's. Algorithms without a colour or marker get a pair of their own.
    """
    _check_keys(config)
    config = _typed(config, schema, schema)
    error = jsonschema.exceptions.best_match(_Validator(schema).iter_errors(config))
    if error is not None:
        raise InputError(printable(_explain(error)))
    _fill(config, schema, schema)
    for name, algorithm in config["algorithms"].items():
        with located(f"config: algorithms.{name}"):
            estimator = find_estimator(algorithm["estimator"])
            estimator.along(algorithm.get("parameter"), algorithm.get("grid", []), algorithm["options"])
    _name(config["datasets"])
    _name(config["algorithms"])
    _tell_apart(config["algorithms"])
    for name, dataset in config["datasets"].items():
        for part in ("train", "test"):
            with located(f"config: datasets.{name}.{part}"):
                for file in dataset.get(part, []):
                    check_file_name(file)
        for file in dataset["sha256"]:
            _known(file, dataset.get("train", []) + dataset.get("test", []), f"datasets.{name}.sha256", "file")
    for name, experiment in config["experiments"].items():
        experiment.setdefault("algorithms", [each for each in PAPERS if each in config["algorithms"]])
        place = f"experiments.{name}"
        for dataset in experiment["datasets"]:
            _known(dataset, config["datasets"], f"{place}.datasets", "data set")
        for dataset in experiment.get("replay_curve", {}).get("datasets", []):
            _known(dataset, config["datasets"], f"{place}.replay_curve.datasets", "data set")
        for algorithm in experiment["algorithms"]:
            _known(algorithm, config["algorithms"], f"{place}.algorithms", "algorithm")
        for algorithm in experiment.get("replay_curve", {}).get("algorithms", []):
            _known(algorithm, experiment["algorithms"], f"{place}.replay_curve.algorithms", "algorithm")
        for algorithm in experiment.get("ablation", {}).get("algorithms", []):
            _known(algorithm, experiment["algorithms"], f"{place}.ablation.algorithms", "algorithm")
        for selection in experiment["selection"]:
            _known(selection, SCORES, f"{place}.selection", "held-out score")
        for start in experiment.get("ablation", {}).get("starts", []):
            _known(start, STARTS, f"{place}.ablation.starts", "start")
        _add_starts(config["algorithms"], experiment)
    for dataset in config["theory"]["datasets"]:
        _known(dataset, config["datasets"], "theory.datasets", "data set")
    for experiment in config["run"]:
        _known(experiment, config["experiments"], "run", "experiment")
    return config


def _add_starts(algorithms: dict[str, dict], experiment: Mapping) -> None:
    """Add the algorithms of an experiment's ablation as they start elsewhere than where they are configured to."""
    for name, by_start in all_starts(algorithms, experiment).items():
        for start, key in by_start.items():
            if key != name:
                label = f"{algorithms[name]['label']}, from {STARTS[start]}"
                options = {**algorithms[name]["options"], "start": start}
                added = {**algorithms[name], "label": label, "options": options}
                if algorithms.setdefault(key, added) != added:
                    raise InputError(f"config: algorithms.{key}: this name is that of {name} in an ablation")


def _name(entries: Mapping[str, dict]) -> None:
    """Label what has no label by its name."""
    for name, entry in entries.items():
        entry.setdefault("label", name.replace("_", " "))


def _tell_apart(algorithms: Mapping[str, dict]) -> None:
    """Give the algorithms without a colour or a marker one, so that no two algorithms share both."""
    taken = {(each.get("marker"), each.get("colour")) for each in algorithms.values()}
    for each in algorithms.values():
        if not {"colour", "marker"} <= each.keys():
            markers = [each["marker"]] if "marker" in each else SPARE_MARKERS
            colours = [each["colour"]] if "colour" in each else SPARE_COLOURS
            pairs = list(product(markers, colours))
            each["marker"], each["colour"] = next((pair for pair in pairs if pair not in taken), pairs[0])
            taken.add((each["marker"], each["colour"]))


def _known(name: str, allowed, place: str, kind: str) -> None:
    if name not in allowed:
        raise InputError(f"config: {place}: unknown {kind} {name!r}{_allowed(name, allowed)}")


def _allowed(name: str, allowed) -> str:
    close = get_close_matches(str(name), list(map(str, allowed)), n=1)
    return (f"; did you mean {close[0]!r}?" if close else "") + f" (allowed: {', '.join(map(str, allowed)) or 'none'})"


def _explain(error: jsonschema.ValidationError) -> str:
    """One line: the key's path, what it has, and what the schema allows."""
    path, where = list(error.absolute_path), error.schema.get("description", "")
    if error.validator == "additionalProperties":
        path.append(sorted(set(error.instance) - set(error.schema["properties"]))[0])
        return f"{_place(path)}: unknown key{_allowed(path[-1], error.schema['properties'])}"
    if "propertyNames" in error.absolute_schema_path:
        taken = f"is taken, one of {', '.join(error.validator_value['enum'])}" if error.validator == "not" else ""
        return f"{_place([*path, error.instance])}: this name {taken or f'does not fit ({where})'}"
    place = _place(path)
    if error.validator == "oneOf" and all("required" in choice for choice in error.validator_value):
        choices = " or ".join(" and ".join(choice["required"]) for choice in error.validator_value)
        return f"{place}: has {', '.join(error.instance)}; expected either {choices}"
    return f"{place}: {error.message}" + (f" ({where})" if where else "")


def _check_keys(value: object, *path: object) -> None:
    """Raise InputError for a key that is no text, or for maps and lists without end, as YAML can have them."""
    if len(path) > DEEPEST:
        raise InputError(f"{_place(path[:4])}: more than {DEEPEST} keys deep")
    for key, each in (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    ):
        if isinstance(value, Mapping) and not isinstance(key, str):
            raise InputError(printable(f"{_place(path)}: the key {key!r} is not text"))
        _check_keys(each, *path, key)


def _place(path) -> str:
    return ": ".join(["config", *filter(None, [".".join(map(str, path))])])


def _typed(value, schema: Mapping, root: Mapping):
    """Return a value with its texts turned into what the schema wants in their places, where they spell it."""
    schema = _resolved(schema, root)
    kinds = [schema, *schema.get("oneOf", [])]
    if isinstance(value, Mapping):
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        rest = rest if isinstance(rest, Mapping) else {}
        return {key: _typed(each, named.get(key, rest), root) for key, each in value.items()}
    if isinstance(value, list):
        items = next((kind["items"] for kind in kinds if "items" in kind), {})
        return [_typed(each, items, root) for each in value]
    if isinstance(value, str):
        for kind in kinds:
            for parse in _SPELLINGS.get(str(kind.get("type")), ()):
                with suppress(KeyError, ValueError):
                    return parse(value)
    return deepcopy(value)


_SPELLINGS = {
    "integer": (int,),
    "number": (int, float),
    "boolean": ({"true": True, "false": False}.__getitem__,),
}


def _resolved(schema: Mapping, root: Mapping) -> Mapping:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _fill(value, schema: Mapping, root: Mapping) -> None:
    """Set the defaults of missing keys, down the objects that the schema describes."""
    schema = _resolved(schema, root)
    if not isinstance(value, dict):
        return
    for key, described in schema.get("properties", {}).items():
        if key not in value and "default" in described:
            value[key] = deepcopy(described["default"])
        if key in value:
            _fill(value[key], described, root)
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict):
        for key in value.keys() - schema.get("properties", {}).keys():
            _fill(value[key], rest, root)
