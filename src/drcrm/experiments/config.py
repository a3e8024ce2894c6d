"""The configuration of experiments: read from files, validated by the JSON schema, and completed with defaults."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path

import jsonschema
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config, validate

from drcrm.errors import InputError, escape_unprintable, prefix_errors, warn
from drcrm.experiments.config_checks import cross_check, suggest
from drcrm.experiments.runs import all_starts
from drcrm.logs.unique_keys import parse_yaml
from drcrm.optimization.starts import STARTS
from drcrm.reports.figures.style import tell_apart
from drcrm.reports.roles import PAPER_ALGORITHMS
from drcrm.selection.registry.shipped_algorithms import shipped_algorithms

SCHEMA = "workflow/schemas/config.schema.yaml"
_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
_STRICT = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_TYPES)


def project_config(project: Path, files: Sequence[str | Path] = ()) -> dict:
    """Return the project's configuration, merged with further files and completed.

    Maps are merged. Lists and other values are replaced. The InputError has a line for each file that cannot be read or
    that repeats a key.
    """
    config: dict = {}
    faults: list[str] = []
    for path in (project / "config.yaml", *files):
        try:
            update_config(config, deepcopy(read_config(path)))  # a YAML alias is the same object in several places
        except InputError as error:
            faults += error.args
    if faults:
        raise InputError(*faults)
    return complete(config, project / SCHEMA)


def read_config(path: str | Path) -> dict:
    """Return the content of a configuration file, a map with unique keys. An InputError names the file and the line."""
    try:
        with prefix_errors(path):
            config = parse_yaml(Path(path).read_text(encoding="utf-8"))
            if not isinstance(config, dict):
                raise InputError("must have the keys of a configuration, but is empty or is not a map")
    except OSError as error:
        raise InputError(escape_unprintable(f"{path}: {(error.strerror or str(error)).lower()}")) from None
    except UnicodeDecodeError as error:
        raise InputError(escape_unprintable(f"{path}: not YAML: {error}")) from None
    return config


def complete(config: Mapping, schema: Path) -> dict:
    """Return a configuration with all defaults filled in.

    The defaults are those of the schema, the package's algorithms, and labels made from names. An ablation adds
    variants of its algorithms, with other starts. Algorithms without a colour or a marker get a unique pair. Text is
    converted if the schema expects a number or a truth value, because ``--config`` passes nested values as text and
    YAML reads 1e-5 as text.

    Raises
    ------
    InputError
        For the first value that the schema does not allow. If there is none, for all faults of ``cross_check``, with a
        line for each.
    """
    merged = {"algorithms": shipped_algorithms()}
    update_config(merged, deepcopy(config))
    _parse_text(merged, schema)
    _validate(merged, schema)
    for entry in (*merged["datasets"].items(), *merged["algorithms"].items()):
        entry[1].setdefault("label", entry[0].replace("_", " "))
    for experiment in merged["experiments"].values():
        experiment.setdefault("algorithms", [name for name in PAPER_ALGORITHMS if name in merged["algorithms"]])
    if faults := [*cross_check(merged)]:
        raise InputError(*(escape_unprintable(f"config: {fault}") for fault in faults))
    tell_apart(merged["algorithms"])
    for name, experiment in merged["experiments"].items():
        _keep_own_algorithms(name, experiment)
        _add_starts(merged["algorithms"], experiment)
    return merged


def _parse_text(config: dict, schema: Path) -> None:
    """Convert text to the number or truth value that the schema expects, and a float such as 2.0 to an integer."""
    for error in _STRICT(parse_yaml(schema.read_text(encoding="utf-8"))).iter_errors(config):
        if error.validator == "type" and isinstance(error.instance, str | float):
            *path, key = error.absolute_path
            value = error.instance
            with suppress(ValueError, OverflowError):
                reduce(getitem, path, config)[key] = json.loads(value) if isinstance(value, str) else int(value)


def _validate(config: dict, schema: Path) -> None:
    """Validate the configuration and fill in the schema's defaults. An InputError says what the schema refuses."""
    try:
        # First validate without defaults. Filling them in fails if a value that should be a map is something else.
        validate(config, str(schema), set_default=False)
        validate(config, str(schema))
    except WorkflowError as error:
        fault = error.__context__
        if not isinstance(fault, jsonschema.ValidationError):
            raise
        message = fault.message
        if fault.validator == "additionalProperties":
            allowed = fault.schema["properties"]
            unknown = min(fault.instance.keys() - allowed.keys(), key=str)
            message = f"unknown key {unknown!r}{suggest(unknown, allowed)}"
        elif description := fault.schema.get("description"):
            message += f" ({description})"
        raise InputError(escape_unprintable(f"config: {'.'.join(map(str, fault.absolute_path))}: {message}")) from None


def _keep_own_algorithms(name: str, experiment: dict) -> None:
    """Keep only the experiment's algorithms in its replay curve and its ablation. Warn about the removed ones.

    A curve without remaining algorithms shows all algorithms of the experiment. An ablation without remaining
    algorithms is removed.
    """
    for part in ("replay_curve", "ablation"):
        options = experiment.get(part, {})
        if gone := [key for key in options.get("algorithms", []) if key not in experiment["algorithms"]]:
            warn(f"{part} of {name} leaves out {', '.join(gone)}: not among the algorithms of {name}")
            options["algorithms"] = [key for key in options["algorithms"] if key not in gone]
            if not options["algorithms"]:
                del options["algorithms"]
    if "algorithms" not in experiment.get("ablation", {}):
        experiment.pop("ablation", None)


def _add_starts(algorithms: dict[str, dict], experiment: Mapping) -> None:
    """Add variants of the ablation's algorithms, which differ from them only in the start."""
    for name, by_start in all_starts(algorithms, experiment).items():
        for start, key in by_start.items():
            if key != name:
                label = f"{algorithms[name]['label']}, from {STARTS[start]}"
                options = {**algorithms[name]["options"], "start": start}
                entry = {**algorithms[name], "label": label, "options": options}
                if algorithms.setdefault(key, entry) != entry:
                    raise InputError(
                        f"config: algorithms.{key}: the ablation of {name} needs this name; choose another"
                    )


def check_target(name: str, config: Mapping) -> None:
    """Raise InputError unless the configuration has an experiment or a log of this name."""
    targets = [*config["experiments"], *config["logs"], "theory", "studies"]
    if name in targets:
        return
    if Path(f"results/{name}/metrics.csv").exists():
        raise InputError(
            f"results/{name} has results of an experiment that is not in the configuration. Add its file: "
            "use --configfile FILE, or CONFIG=FILE with make"
        )
    raise InputError(f"there is no experiment {name!r}{suggest(name, targets)}")
