"""The configuration: read from its files, checked, and with its defaults filled in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import TypeVar

from snakemake.utils import update_config

from drcrm.errors import InputError, escape_unprintable
from drcrm.experiments.config_checks import CHECKS, KINDS, Fault, instead_of, lines_of, odd_keys, refused, usable
from drcrm.experiments.lookups import all_starts
from drcrm.logs.unique_keys import load_yaml, repeated_keys
from drcrm.optimization.starts import STARTS
from drcrm.reports.figures.style import tell_apart
from drcrm.reports.roles import PAPER_ALGORITHMS
from drcrm.selection.shipped_algorithms import shipped_algorithms

T = TypeVar("T")


def project_config(project: Path, given: Mapping, files: Sequence[str | Path]) -> tuple[dict, dict]:
    """Return the project's configuration with what is given over it, as it is merged, and complete.

    Maps merge, lists replace. Of what is given, ``files`` is where it comes from.

    Raises
    ------
    InputError
        A line for each key that a file has twice, and for each error of ``complete``.
    """
    schema = read_config(project / "workflow/schemas/config.schema.yaml")
    faults = [
        escape_unprintable(f"{path}, {repeated}")
        for path in (project / "config.yaml", *files)
        for repeated in _parsed(path, repeated_keys)
    ]
    merged = shipped_config(project)
    update_config(merged, given)
    try:
        config = complete(merged, schema)
    except InputError as error:
        faults += error.args
    if faults:
        raise InputError(*faults)
    return merged, config


def shipped_config(project: Path) -> dict:
    """Return the package's algorithms with the project's ``config.yaml`` over them."""
    merged = {"algorithms": shipped_algorithms()}
    update_config(merged, read_config(project / "config.yaml"))
    return usable(merged, ())  # a copy: what YAML's anchors share is changed in one place alone


def read_configs(paths: Sequence[str | Path]) -> dict:
    """Return what configuration files have together; InputError has a line for each that cannot be read."""
    merged, faults = {}, []
    for path in paths:
        try:
            update_config(merged, read_config(path))
        except InputError as error:
            faults += error.args
    if faults:
        raise InputError(*faults)
    return merged


def read_config(path: str | Path) -> dict:
    """Return what a configuration file has; InputError says in a line why it is none, with the file's line."""
    config = _parsed(path, load_yaml)
    if not isinstance(config, dict):
        what = "nothing" if config is None else "no keys"
        raise InputError(escape_unprintable(f"{path}: {what} in it, expected those of a configuration"))
    return config


def _parsed(path: str | Path, parse: Callable[[str], T]) -> T:
    """What a parser of YAML makes of a file."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(escape_unprintable(f"{path}: {(error.strerror or str(error)).lower()}")) from None
    except UnicodeDecodeError as error:
        raise InputError(escape_unprintable(f"{path}: not YAML: {error}")) from None
    except InputError as error:
        mark = ", " if str(error).startswith("line ") else ": "
        raise InputError(escape_unprintable(f"{path}{mark}{error}")) from None


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
    given, plain = config, _without_references(schema, schema["$defs"])
    faults = list(odd_keys(given))
    config = _typed(usable(given, faults), plain)
    faults += refused(config, plain)
    config = usable(config, faults)
    _fill(config, plain)
    _fill_from_names(config)
    for check in CHECKS:
        faults += list(check(config, given, faults))
    if not faults:
        tell_apart(config["algorithms"])
        for experiment in config["experiments"].values():
            _keep_own(experiment)
            faults += _add_starts(config["algorithms"], experiment)
    if faults:
        raise InputError(*lines_of(faults, given))
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
    targets = [*config["experiments"], *config["logs"], "theory", "studies"]
    if name in targets:
        return ""
    if Path(f"results/{name}/metrics.csv").exists():
        return (
            f"results/{name} is of an experiment that the configuration lacks: give its file, --configfile FILE, "
            "with make CONFIG=FILE"
        )
    return f"there is no experiment {name!r}{instead_of(name, targets)}"


def _without_references(schema: object, definitions: Mapping) -> object:
    """A schema with its definitions where it refers to them."""
    if not isinstance(schema, Mapping):
        return schema
    meant = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    whole = {**meant, **schema}.items()
    return {key: _without_references(each, definitions) for key, each in whole if key != "$ref"}


def _typed(value, schema: Mapping):
    """Return a value with its texts turned into what the schema wants in their places, where they spell it."""
    kinds = [schema, *schema.get("oneOf", [])]
    if isinstance(value, Mapping):
        return {key: _typed(each, _of_key(key, schema)) for key, each in value.items()}
    if isinstance(value, list):
        items = next((kind["items"] for kind in kinds if "items" in kind), {})
        return [_typed(each, items) for each in value]
    if isinstance(value, str):
        for kind in kinds:
            types = kind.get("type", [])
            for parse in _SPELLINGS.get(types if isinstance(types, str) else next(iter(types), ""), ()):
                with suppress(KeyError, ValueError):
                    return parse(value)
    return deepcopy(value)


_SPELLINGS = {"integer": (int,), "number": (int, float), "boolean": ({"true": True, "false": False}.__getitem__,)}


def _fill(value, schema: Mapping) -> None:
    """Set the defaults of missing keys, down the objects that the schema describes."""
    if isinstance(value, dict):
        for key, described in schema.get("properties", {}).items():
            if "default" in described:
                value.setdefault(key, deepcopy(described["default"]))
        for key, each in value.items():
            _fill(each, _of_key(key, schema))


def _of_key(key: str, schema: Mapping) -> Mapping:
    """What a schema says of a key of a map."""
    rest = schema.get("additionalProperties")
    return schema.get("properties", {}).get(key, rest if isinstance(rest, Mapping) else {})


def _fill_from_names(config: dict) -> None:
    """Set what is missing and depends on names: sections, labels, and an experiment's algorithms."""
    for kind in KINDS:
        config.setdefault(kind, {})
    for name, entry in (*config["datasets"].items(), *config["algorithms"].items()):
        entry.setdefault("label", name.replace("_", " "))
    for experiment in config["experiments"].values():
        experiment.setdefault("algorithms", [each for each in PAPER_ALGORITHMS if each in config["algorithms"]])


def _keep_own(experiment: dict) -> None:
    """Leave an experiment's curve and ablation its own algorithms: without any, all are shown, and nothing ablated."""
    for part in ("replay_curve", "ablation"):
        chosen = experiment.get(part, {})
        left = [each for each in chosen.get("algorithms", []) if each in experiment["algorithms"]]
        if left:
            chosen["algorithms"] = left
        elif part == "ablation":
            experiment.pop(part, None)
        else:
            chosen.pop("algorithms", None)


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
