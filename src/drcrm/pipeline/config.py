"""The configuration: checked against its schema and in itself, with defaults filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jsonschema

from ..errors import InputError, printable
from ..registry import PAPERS, SCORES, STARTS, find_estimator
from .files import check_file_name
from .lookups import all_starts

NAMED = {"datasets": "data set", "algorithms": "algorithm", "experiments": "experiment"}
SPARE_COLOURS = ("#882255", "#44AA99", "#999933", "#332288")
DEEPEST = 20  # keys over one another in a configuration
SPARE_MARKERS = "*hpd<>HX"

# Of the schema's keywords: what they refuse can be looked at further.
_OF_MISSING_KEYS = ("required", "dependentRequired", "oneOf")
_OF_A_WHOLE = (*_OF_MISSING_KEYS, "minProperties", "minItems", "maxItems", "uniqueItems", "not")

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


class Fault(NamedTuple):
    """What is wrong at a key: its path, what is said of it, and whether what stands there can be looked at further."""

    path: tuple
    said: str
    usable: bool = True


def complete(config: Mapping, schema: Mapping) -> dict:
    """Return a configuration with every default filled in.

    Text counts as the number or truth value that it spells where the schema wants one: Snakemake's --config gives
    nested values as text, and YAML reads 1e-5 as text.

    An experiment's replay curve and ablation keep of their algorithms those that the experiment has; ``left_out`` says
    which go. Its ablation adds its algorithms from other starts. Algorithms without a colour or marker get a pair of
    their own.

    Raises
    ------
    InputError
        A line for each error, in the order of the configuration, with the key and what is allowed: what the schema
        refuses; data sets, algorithms, experiments, scores and starts that there are not; parameters of an algorithm
        that are not its estimator's.
    """
    given = config
    odd = list(_odd_keys(config))
    config = _typed(_without_unusable(config, odd), schema, schema)
    names = {kind: list(each) if isinstance(each := config.get(kind), Mapping) and each else None for kind in NAMED}
    refused = [*odd, *_refused(config, schema)]
    config = _without_unusable(config, refused)
    _fill(config, schema, schema)
    for kind in NAMED:
        config.setdefault(kind, {})
    _name(config["datasets"])
    _name(config["algorithms"])
    for experiment in config["experiments"].values():
        experiment.setdefault("algorithms", [each for each in PAPERS if each in config["algorithms"]])
    unfit = [*_unfit_algorithms(config["algorithms"], refused), *_unfit_files(config["datasets"], refused)]
    faults = [*refused, *unfit, *_unknown_names(config, names)]
    if not faults:
        _tell_apart(config["algorithms"])
        for experiment in config["experiments"].values():
            _keep_own(experiment)
            faults += _add_starts(config["algorithms"], experiment)
    if faults:
        faults.sort(key=lambda fault: _position(fault.path, given))
        raise InputError(*dict.fromkeys(printable(f"{_place(fault.path)}: {fault.said}") for fault in faults))
    return config


def left_out(given: Mapping, config: Mapping, name: str) -> str:
    """Which algorithms of its replay curve and ablation an experiment has not, and what follows, in words.

    From the configuration as it was given to ``complete``, and as it came back; nothing where it has all.
    """
    before, after = (each["experiments"][name] for each in (given, config))
    said = []
    for part, without_any in (("replay_curve", "which shows all it has"), ("ablation", "which falls away")):
        gone = [each for each in before.get(part, {}).get("algorithms", []) if each not in after["algorithms"]]
        if gone:
            follows = "" if "algorithms" in after.get(part, {}) else f", {without_any}"
            said.append(f"{', '.join(gone)} of its {part}{follows}")
    return f"not among its algorithms, and left out: {'; '.join(said)}" if said else ""


def unknown_experiment(name: str, config: Mapping) -> str:
    """What to say of an experiment that a configuration has not; nothing of one that it has."""
    targets = [*config["experiments"], "theory"]
    if name in targets:
        return ""
    if Path(f"results/{name}/metrics.csv").exists():
        return (
            f"results/{name} is of an experiment that the configuration lacks: give its file, --configfile FILE, "
            "with make CONFIG=FILE"
        )
    return f"there is no experiment {name!r}{_allowed(name, targets)}"


def _keep_own(experiment: dict) -> None:
    """Leave an experiment's curve and ablation its own algorithms: without any, all are shown, and nothing ablated."""
    for part in ("replay_curve", "ablation"):
        shown = experiment.get(part, {})
        left = [each for each in shown.get("algorithms", []) if each in experiment["algorithms"]]
        if left:
            shown["algorithms"] = left
        elif part == "ablation":
            experiment.pop(part, None)
        else:
            shown.pop("algorithms", None)


def _add_starts(algorithms: dict[str, dict], experiment: Mapping) -> Iterator[Fault]:
    """Add the algorithms of an experiment's ablation as they start elsewhere than where they are configured to."""
    for name, by_start in all_starts(algorithms, experiment).items():
        for start, key in by_start.items():
            if key != name:
                label = f"{algorithms[name]['label']}, from {STARTS[start]}"
                options = {**algorithms[name]["options"], "start": start}
                added = {**algorithms[name], "label": label, "options": options}
                if algorithms.setdefault(key, added) != added:
                    yield Fault(("algorithms", key), f"this name is that of {name} in an ablation")


def _refused(config: Mapping, schema: Mapping) -> Iterator[Fault]:
    """What the schema refuses; no missing key where an unknown one is like it, nor what only follows from a type."""
    errors = [jsonschema.exceptions.best_match([error]) for error in _Validator(schema).iter_errors(config)]
    other_types = [error.absolute_path for error in errors if error.validator == "type"]
    misspelt = []
    for error in errors:
        path, kind = error.absolute_path, error.validator
        if kind == "additionalProperties":
            allowed = error.schema["properties"]
            for key in error.instance.keys() - allowed.keys():
                misspelt += [path] if _near(key, allowed) else []
                yield Fault((*path, key), f"unknown key{_allowed(key, allowed)}")
        elif not (kind in _OF_MISSING_KEYS and path in misspelt) and (kind == "type" or path not in other_types):
            name = [error.instance] if "propertyNames" in error.absolute_schema_path else []
            yield Fault((*path, *name), _explain(error), kind in _OF_A_WHOLE)


def _unfit_algorithms(algorithms: Mapping, faults: Iterable[Fault]) -> Iterator[Fault]:
    """What does not fit its estimator; where more is wrong with an algorithm, the estimator's name alone."""
    for name, algorithm in algorithms.items():
        wrong = _wrong_keys(faults, "algorithms", name)
        try:
            if "estimator" in algorithm:
                estimator = find_estimator(algorithm["estimator"])
                if wrong <= {"label", "colour", "marker", "group"}:
                    estimator.along(algorithm.get("parameter"), algorithm.get("grid", []), algorithm["options"])
        except InputError as error:
            yield Fault(("algorithms", name), str(error))


def _unfit_files(datasets: Mapping, faults: Iterable[Fault]) -> Iterator[Fault]:
    """Names that no file can have, and digests of files that a data set has not."""
    for name, dataset in datasets.items():
        files = []
        for part in ("train", "test"):
            for file in dataset.get(part, []):
                files.append(file)
                try:
                    check_file_name(file)
                except InputError as error:
                    yield Fault(("datasets", name, part), str(error))
        if not {"train", "test"} & _wrong_keys(faults, "datasets", name):
            yield from _unknown(("datasets", name, "sha256"), dataset["sha256"], files, "file")


def _unknown_names(config: Mapping, names: Mapping) -> Iterator[Fault]:
    """Names of what there is not; ``names`` has what there is, be it right or wrong, or None where it is not known."""
    for name, experiment in config["experiments"].items():
        path = "experiments", name
        for part in ((), ("replay_curve",), ("ablation",)):
            options = experiment.get(part[0], {}) if part else experiment
            for kind in ("datasets", "algorithms"):
                yield from _unknown((*path, *part, kind), options.get(kind, []), names[kind], NAMED[kind])
        yield from _unknown((*path, "selection"), experiment["selection"], SCORES, "held-out score")
        starts = experiment.get("ablation", {}).get("starts", [])
        yield from _unknown((*path, "ablation", "starts"), starts, STARTS, "start")
    yield from _unknown(("theory", "datasets"), config["theory"]["datasets"], names["datasets"], "data set")
    yield from _unknown(("run",), config["run"], names["experiments"], "experiment")


def _unknown(path: tuple, found: Iterable[str], allowed: Collection[str] | None, kind: str) -> Iterator[Fault]:
    """Those of the names found that are not allowed; none, where what is allowed is not known."""
    for name in found if allowed is not None else ():
        if name not in allowed:
            yield Fault(path, f"unknown {kind} {name!r}{_allowed(name, allowed)}")


def _wrong_keys(faults: Iterable[Fault], *path: str) -> set[str | None]:
    """The keys of an object at which there are faults; None stands for the object itself."""
    below = (fault.path[len(path) :] for fault in faults if fault.path[: len(path)] == path)
    return {rest[0] if rest else None for rest in below}


def _without_unusable(value: object, faults: Iterable[Fault]) -> object:
    """A configuration without what cannot be looked at further: the rest is checked all the same."""
    paths = {fault.path for fault in faults if not fault.usable}

    def kept(value: object, *path: object) -> object:
        if isinstance(value, Mapping):
            return {key: kept(each, *path, key) for key, each in value.items() if (*path, key) not in paths}
        if isinstance(value, list):
            return [kept(each, *path, index) for index, each in enumerate(value) if (*path, index) not in paths]
        return value

    return kept(value)


def _position(path: Sequence, value: object) -> list[int]:
    """Where a path leads in a configuration: each key's number among those beside it, −1 where it is not there."""
    position = []
    for key in path:
        keys = list(value) if isinstance(value, Mapping) else list(range(len(value))) if isinstance(value, list) else []
        position.append(keys.index(key) if key in keys else -1)
        value = value[key] if key in keys else None
    return position


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


def _near(name: object, allowed: Iterable) -> list[str]:
    """The closest of the names allowed, if one is close."""
    return get_close_matches(str(name), list(map(str, allowed)), n=1)


def _allowed(name: object, allowed: Iterable) -> str:
    hint = "".join(f"; did you mean {each!r}?" for each in _near(name, allowed))
    return f"{hint} (allowed: {', '.join(map(str, allowed)) or 'none'})"


def _explain(error: jsonschema.ValidationError) -> str:
    """What a key has, and what the schema allows."""
    where = error.schema.get("description", "")
    if "propertyNames" in error.absolute_schema_path:
        taken = f"is taken, one of {', '.join(error.validator_value['enum'])}" if error.validator == "not" else ""
        return f"this name {taken or f'does not fit ({where})'}"
    if error.validator == "oneOf" and all("required" in choice for choice in error.validator_value):
        choices = " or ".join(" and ".join(choice["required"]) for choice in error.validator_value)
        return f"has {', '.join(error.instance) or 'nothing'}; expected either {choices}"
    return error.message + (f" ({where})" if where else "")


def _odd_keys(value: object, *path: object) -> Iterator[Fault]:
    """Keys that are no text, as YAML can have them; InputError for maps and lists without end."""
    if len(path) > DEEPEST:
        raise InputError(printable(f"{_place(path[:4])}: more than {DEEPEST} keys deep"))
    for key, each in (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    ):
        if isinstance(value, Mapping) and not isinstance(key, str):
            yield Fault((*path, key), f"the key {key!r} is not text", usable=False)
        yield from _odd_keys(each, *path, key)


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
