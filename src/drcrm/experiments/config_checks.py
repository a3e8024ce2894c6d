"""What can be wrong in a configuration: each check yields faults, a key's path with what is said of it."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import jsonschema

from drcrm.errors import InputError, escape_unprintable
from drcrm.experiments.lookups import is_classifier, is_single
from drcrm.files import check_file_name
from drcrm.logs.mapping import as_mapping
from drcrm.optimization.starts import STARTS
from drcrm.selection.algorithms import Algorithm, find_estimator
from drcrm.selection.score_names import SCORES
from drcrm.selection.shipped_algorithms import as_entry

KINDS = {"datasets": "data set", "algorithms": "algorithm", "experiments": "experiment"}
DEEPEST = 20  # keys over one another in a configuration

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
    message: str
    usable: bool = True


def lines_of(faults: Iterable[Fault], given: Mapping) -> list[str]:
    """A line for each fault, in the order of the configuration."""
    ordered = sorted(faults, key=lambda fault: _position(fault.path, given))
    return list(dict.fromkeys(escape_unprintable(f"{_in_print(fault.path)}: {fault.message}") for fault in ordered))


def usable(value: object, faults: Iterable[Fault]) -> object:
    """A configuration without what cannot be looked at further: the rest is checked all the same."""
    paths = {fault.path for fault in faults if not fault.usable}

    def kept(value: object, *path: object) -> object:
        if isinstance(value, Mapping):
            return {key: kept(each, *path, key) for key, each in value.items() if (*path, key) not in paths}
        if isinstance(value, list):
            return [kept(each, *path, index) for index, each in enumerate(value) if (*path, index) not in paths]
        return value

    return kept(value)


def odd_keys(value: object, *path: object) -> Iterator[Fault]:
    """Keys that are no text, as YAML can have them; InputError for maps and lists without end."""
    if len(path) > DEEPEST:
        raise InputError(escape_unprintable(f"{_in_print(path[:4])}: more than {DEEPEST} keys deep"))
    for key, each in _items(value).items():
        if isinstance(value, Mapping) and not isinstance(key, str):
            yield Fault((*path, key), f"the key {key!r} is not text", usable=False)
        yield from odd_keys(each, *path, key)


def refused(config: Mapping, schema: Mapping) -> Iterator[Fault]:
    """What the schema refuses; no missing key where an unknown one is like it, nor what only follows from a type."""
    errors = [jsonschema.exceptions.best_match([error]) for error in _Validator(schema).iter_errors(config)]
    other_types = [error.absolute_path for error in errors if error.validator == "type"]
    misspelt = []
    for error in errors:
        path, kind = error.absolute_path, error.validator
        if kind == "additionalProperties":
            allowed = error.schema["properties"]
            for key in error.instance.keys() - allowed.keys():
                misspelt += [path] if _nearest(key, allowed) else []
                yield Fault((*path, key), f"unknown key{instead_of(key, allowed)}")
        elif not (kind in _OF_MISSING_KEYS and path in misspelt) and (kind == "type" or path not in other_types):
            name = [error.instance] if "propertyNames" in error.absolute_schema_path else []
            yield Fault((*path, *name), _explained(error), kind in _OF_A_WHOLE)


# Checks of what the schema lets pass: of a configuration with its defaults, as it was given, and the faults known.


def unfit_algorithms(config: Mapping, _: Mapping, faults: Collection[Fault]) -> Iterator[Fault]:
    """What does not fit its estimator; where more is wrong with an algorithm, the estimator's name alone."""
    for name, algorithm in config["algorithms"].items():
        if "estimator" not in algorithm:
            continue
        try:
            find_estimator(algorithm["estimator"])
            if _faulty_keys(faults, "algorithms", name) <= {"label", "colour", "marker", "group"}:
                parts = ("estimator", "parameter", "grid", "options")
                Algorithm(**{part: algorithm[part] for part in parts if part in algorithm}).criteria()
        except InputError as error:
            yield Fault(("algorithms", name), str(error))


def unfit_files(config: Mapping, _: Mapping, faults: Collection[Fault]) -> Iterator[Fault]:
    """Names that no file can have, and digests of files that a data set has not."""
    for name, dataset in config["datasets"].items():
        files = [(part, file) for part in ("train", "test") for file in dataset.get(part, [])]
        for part, file in files:
            try:
                check_file_name(file)
            except InputError as error:
                yield Fault(("datasets", name, part), str(error))
        if not {"train", "test"} & _faulty_keys(faults, "datasets", name):
            yield from _unknown(("datasets", name, "sha256"), dataset["sha256"], [file for _, file in files], "file")
    for name, study in config["studies"].items():
        for file in study.get("files", {}):
            try:
                check_file_name(file)
            except InputError as error:
                yield Fault(("studies", name, "files"), str(error))


def unknown_names(config: Mapping, given: Mapping, _: Collection[Fault]) -> Iterator[Fault]:
    """Names of data sets, algorithms, experiments, scores and starts that there are not.

    There is what was given, be it right or wrong; of a section without names none are looked at.
    """
    sections = {kind: given[kind] if isinstance(given.get(kind), Mapping) else () for kind in KINDS}
    allowed = {kind: [name for name in section if isinstance(name, str)] or None for kind, section in sections.items()}
    for name, experiment in config["experiments"].items():
        path = "experiments", name
        curve, ablation = (experiment.get(part, {}) for part in ("replay_curve", "ablation"))
        for part, options in ((path, experiment), ((*path, "replay_curve"), curve), ((*path, "ablation"), ablation)):
            for kind in ("datasets", "algorithms"):
                yield from _unknown((*part, kind), options.get(kind, []), allowed[kind], KINDS[kind])
        yield from _unknown((*path, "selection"), experiment["selection"], SCORES, "held-out score")
        yield from _unknown((*path, "ablation", "starts"), ablation.get("starts", []), STARTS, "start")
    yield from _unknown(("theory", "datasets"), config["theory"]["datasets"], allowed["datasets"], "data set")
    for name, study in config["studies"].items():
        path = "studies", name
        yield from _unknown((*path, "algorithms"), study.get("algorithms", []), allowed["algorithms"], "algorithm")
        yield from _unknown((*path, "runs"), study.get("runs", {}), allowed["experiments"], "experiment")
        for experiment, seeds in study.get("runs", {}).items():
            yield from _unknown((*path, "runs", experiment), seeds, allowed["datasets"], "data set")
    yield from _unknown(("run",), config["run"], allowed["experiments"], "experiment")


def unfit_seeds(config: Mapping, _: Mapping, faults: Collection[Fault]) -> Iterator[Fault]:
    """Data sets of an experiment of which its map of seeds does not say how many."""
    for name, experiment in config["experiments"].items():
        path = "experiments", name, "seeds"
        if isinstance(seeds := experiment["seeds"], Mapping) and not _faulty_keys(faults, *path):
            yield from _unknown(path, seeds, config["datasets"], "data set")
            if missing := [each for each in experiment.get("datasets", []) if each not in seeds]:
                yield Fault(path, f"no number for {', '.join(missing)}, expected one for each data set")


def unfit_actions(config: Mapping, _: Mapping, faults: Collection[Fault]) -> Iterator[Fault]:
    """What of an experiment, or of the theory, is not for the actions that its data sets have."""
    kinds = {name: is_single(config, name) for name in config["datasets"]}
    for name, experiment in config["experiments"].items():
        path, curve = ("experiments", name), experiment.get("replay_curve", {})
        known = [each for part in (experiment, curve) for each in part.get("datasets", []) if each in kinds]
        vectors = [each for each in known if not kinds[each]]
        if not _faulty_keys(faults, *path, "click_rates"):
            right, wrong = experiment["click_rates"]
            if right <= wrong:
                yield Fault(
                    (*path, "click_rates"), f"{wrong:g} for wrong actions is not below {right:g} for right ones"
                )
            elif vectors and (right, wrong) != (1, 0):
                yield Fault((*path, "click_rates"), f"they are of one action of K, {vectors[0]!r} has label vectors")
        if experiment["absent_label_score"] == "half" and (single := [each for each in known if kinds[each]]):
            yield Fault((*path, "absent_label_score"), f"half is of label vectors, {single[0]!r} has one action of K")
        for algorithm in experiment["algorithms"] if vectors else ():
            if is_classifier(config, algorithm):
                said = f"{algorithm!r} classifies one action of K, {vectors[0]!r} has label vectors"
                yield Fault((*path, "algorithms"), said)
        for algorithm in experiment.get("ablation", {}).get("algorithms", []):
            if is_classifier(config, algorithm):
                yield Fault((*path, "ablation", "algorithms"), f"{algorithm!r} is a classifier, which has no start")
    for dataset in config["theory"]["datasets"]:
        if kinds.get(dataset):
            yield Fault(("theory", "datasets"), f"{dataset!r} has one action of K, expected label vectors")


def unfit_logs(config: Mapping, _: Mapping, faults: Collection[Fault]) -> Iterator[Fault]:
    """Yield the faults of ``logs``: invalid mappings, unknown algorithms, and names that are also experiments."""
    for name, entry in config["logs"].items():
        if name in config["experiments"]:
            yield Fault(("logs", name), "there is an experiment of this name")
        try:
            mapping = as_mapping({key: value for key, value in entry.items() if key != "path"}, f"logs.{name}")
        except InputError as error:
            yield Fault(("logs", name), str(error).removeprefix(f"logs.{name}").lstrip(": "))
            continue
        yield from _unfit_algorithms(("logs", name, "algorithm"), mapping.algorithm, config["algorithms"])


def _unfit_algorithms(path: tuple, asked: object, algorithms: Mapping[str, Mapping]) -> Iterator[Fault]:
    """Yield the faults of a log's algorithms, which are names from the configuration or entries."""
    known = [name for name, entry in algorithms.items() if "estimator" in entry]
    for algorithm in asked if isinstance(asked, list) else [] if asked is None else [asked]:
        if isinstance(algorithm, str):
            yield from _unknown(path, [algorithm], known, "algorithm")
            continue
        try:
            as_entry(algorithm)
        except InputError as error:
            yield Fault(path, str(error).removeprefix("algorithm").lstrip(" ."))


CHECKS = (unfit_algorithms, unfit_files, unknown_names, unfit_seeds, unfit_actions, unfit_logs)


def _unknown(path: tuple, names: Iterable[str], allowed: Collection[str] | None, kind: str) -> Iterator[Fault]:
    """Those of the names that are not allowed; none, where what is allowed is not known."""
    for name in names if allowed is not None else ():
        if name not in allowed:
            yield Fault(path, f"unknown {kind} {name!r}{instead_of(name, allowed)}")


def _faulty_keys(faults: Iterable[Fault], *path: str) -> set[str | None]:
    """The keys of an object at which there are faults; None stands for the object itself."""
    below = (fault.path[len(path) :] for fault in faults if fault.path[: len(path)] == path)
    return {rest[0] if rest else None for rest in below}


def instead_of(name: object, allowed: Iterable) -> str:
    """What to say after a name that is not allowed: the one that may be meant, and all that are."""
    hint = "".join(f"; did you mean {each!r}?" for each in _nearest(name, allowed))
    return f"{hint} (allowed: {', '.join(map(str, allowed)) or 'none'})"


def _nearest(name: object, allowed: Iterable) -> list[str]:
    """The closest of the names allowed, if one is close."""
    return get_close_matches(str(name), list(map(str, allowed)), n=1)


def _explained(error: jsonschema.ValidationError) -> str:
    """What a key has, and what the schema allows."""
    where = error.schema.get("description", "")
    if "propertyNames" in error.absolute_schema_path:
        taken = f"is taken, one of {', '.join(error.validator_value['enum'])}" if error.validator == "not" else ""
        return f"this name {taken or f'does not fit ({where})'}"
    if error.validator == "oneOf" and all("required" in choice for choice in error.validator_value):
        choices = " or ".join(" and ".join(choice["required"]) for choice in error.validator_value)
        return f"has {', '.join(error.instance) or 'nothing'}; expected either {choices}"
    return error.message + (f" ({where})" if where else "")


def _in_print(path: Sequence) -> str:
    return ": ".join(["config", *filter(None, [".".join(map(str, path))])])


def _position(path: Sequence, value: object) -> list[int]:
    """Where a path leads in a configuration: each key's number among those beside it, −1 where it is not there."""
    position = []
    for key in path:
        items = _items(value)
        position.append(list(items).index(key) if key in items else -1)
        value = items.get(key)
    return position


def _items(value: object) -> Mapping:
    """What a map or a list holds, by key or index; nothing of anything else."""
    return value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, list) else {}
