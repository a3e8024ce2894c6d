"""The configuration of experiments: read, validated by the JSON schema, completed with defaults, and cross-checked."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path

import jsonschema
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config, validate

from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.mapping.checks import parse_texts, parse_yaml
from drcrm.paper.config_checks import cross_check, suggest
from drcrm.paper.reports.plan import tell_apart
from drcrm.paper.reports.roles import PAPER_ALGORITHMS
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

    The defaults are those of the schema, the package's algorithms, and labels made from names. Algorithms without a
    colour or a marker get a unique pair. Text is converted if the schema expects a number, a truth
    value or null, because ``--config`` passes nested values as text and Snakemake's YAML reads 1e-5 as text.

    Raises
    ------
    InputError
        For the first value that the schema does not allow. If there is none, for all faults of ``cross_check``, with a
        line for each.
    """
    merged = {"algorithms": deepcopy(shipped_algorithms())}
    update_config(merged, deepcopy(config))
    _move_evaluations(merged)
    _add_variants(merged.get("experiments"))
    _parse_text(merged, schema)
    _validate(merged, schema)
    for entry in (*merged["datasets"].items(), *merged["algorithms"].items()):
        entry[1].setdefault("label", entry[0].replace("_", " "))
    for experiment in merged["experiments"].values():
        experiment.setdefault("algorithms", [name for name in PAPER_ALGORITHMS if name in merged["algorithms"]])
    if faults := [*cross_check(merged)]:
        raise InputError(*(escape_unprintable(f"config: {fault}") for fault in faults))
    tell_apart(merged["algorithms"])
    return merged


def _move_evaluations(config: dict) -> None:
    """Move the experiments of the kind ``evaluation`` from ``experiments`` to ``evaluations``, without their kind."""
    experiments = config.get("experiments")
    for name, entry in [*experiments.items()] if isinstance(experiments, dict) else []:
        if isinstance(entry, dict) and entry.get("kind") == "evaluation":
            del experiments[name]
            config.setdefault("evaluations", {})[name] = {key: value for key, value in entry.items() if key != "kind"}


def _add_variants(experiments: object) -> None:
    """Add an experiment NAME_VARIANT for each variant of an experiment, unless the schema will refuse the variants.

    It takes the experiment's options. The variant's options replace them, and an entry NAME_VARIANT replaces both.
    """
    for name, experiment in [*experiments.items()] if isinstance(experiments, dict) else []:
        variants = experiment.get("variants") if isinstance(experiment, dict) else None
        if isinstance(variants, dict) and all(isinstance(options, dict) for options in variants.values()):
            del experiment["variants"]
            for variant, options in variants.items():
                entry = deepcopy({**experiment, **options, "variant_of": name})
                update_config(entry, experiments.get(f"{name}_{variant}", {}))
                experiments[f"{name}_{variant}"] = entry


def _parse_text(config: dict, schema: Path) -> None:
    """Convert text to the value that the schema expects, and a float such as 2.0 to an integer."""
    errors = [*_STRICT(parse_yaml(schema.read_text(encoding="utf-8"))).iter_errors(config)]
    parse_texts(config, errors)
    for error in errors:
        if error.validator == "type" and error.absolute_path:
            *path, key = error.absolute_path
            entry = reduce(getitem, path, config)
            if isinstance(entry[key], float) and entry[key].is_integer():
                entry[key] = int(entry[key])


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
            message = f"{fault.instance!r} {description}" if fault.validator == "not" else f"{message} ({description})"
        raise InputError(escape_unprintable(f"config: {'.'.join(map(str, fault.absolute_path))}: {message}")) from None
