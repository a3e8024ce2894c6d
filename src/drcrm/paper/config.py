"""The configuration of experiments: read, validated by the JSON schema, completed with defaults, and cross-checked.

The checks are those that a JSON schema cannot express: of names, files, algorithms and mappings.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config, validate

from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.files import check_file_name
from drcrm.mapping.checks import parse_texts, parse_yaml
from drcrm.mapping.log_mapping import as_mapping
from drcrm.paper import PAPER_ALGORITHMS, POEM
from drcrm.paper.reports.plan import tell_apart
from drcrm.paper.runs import CLASSIFIERS, entries, is_single, options_of
from drcrm.paper.sources import is_table
from drcrm.selection.algorithms import Algorithm, as_algorithm, check_algorithm, shipped_algorithms
from drcrm.selection.fit_settings import make_object
from drcrm.selection.score_names import SCORES

TEXT_KEYS = ("features", "labels")  # of data sets in LibSVM's and MULAN's formats
TEXT_OPTIONS = (*TEXT_KEYS, "rows", "nonzeros", "positives", "derived_labels", "drop_repeats")
SCHEMA = "workflow/schemas/config.schema.yaml"
_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
_STRICT = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_TYPES)


def cross_check(config: Mapping) -> Iterator[str]:
    """Yield a message, which begins with the key, for each fault of a configuration that the schema accepts."""
    yield from _check_numbers(config)
    for name, algorithm in config["algorithms"].items():
        yield from _check_algorithm(f"algorithms.{name}", algorithm)
    for name, dataset in config["datasets"].items():
        yield from _check_files(f"datasets.{name}", dataset)
    for name, experiment in config["experiments"].items():
        yield from _check_experiment(f"experiments.{name}", experiment, config)
    for name, evaluation in config["evaluations"].items():
        yield from _check_evaluation(f"evaluations.{name}", evaluation, config)
    for name, log in config["logs"].items():
        yield from _check_log(name, log, config)
    yield from _check_datasets("theory.datasets", config["theory"]["datasets"], config, single=False)
    for name, study in config["studies"].items():
        yield from _check_study(f"studies.{name}", study, config)
    yield from _unknown("run", config["run"], all_targets(config), "experiment")


def all_targets(config: Mapping) -> list[str]:
    """Return the names that ``run`` may have."""
    return [*config["experiments"], *config["evaluations"], *config["logs"], "theory", "studies"]


def suggest(name: object, allowed: Iterable) -> str:
    """Return a hint for an unknown name: a similar allowed name, if there is one, and all allowed names."""
    names = [*map(str, allowed)]
    hint = "".join(f"; did you mean {match!r}?" for match in get_close_matches(str(name), names, n=1))
    return f"{hint} (allowed: {', '.join(names) or 'none'})"


def _unknown(key: str, names: Iterable[str], allowed: Collection[str], kind: str) -> Iterator[str]:
    for name in names:
        if name not in allowed:
            yield f"{key}: unknown {kind} {name!r}{suggest(name, allowed)}"


def _faults(key: str, check: Callable, *arguments: Any) -> Iterator[str]:
    """Yield the message of the InputError that a check raises."""
    try:
        check(*arguments)
    except InputError as error:
        yield f"{key}: {error}"


def _check_numbers(value: object, key: str = "") -> Iterator[str]:
    """Yield a message for each infinite number and each NaN. YAML allows both."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        if isinstance(item, float) and not math.isfinite(item):
            yield f"{key}{name}: must be a finite number, got {item}"
        yield from _check_numbers(item, f"{key}{name}.")


def _check_algorithm(key: str, entry: Mapping) -> Iterator[str]:
    if "estimator" in entry:
        yield from _faults(key, lambda: check_algorithm(Algorithm.of_entry(entry)))
    elif "competitor" in entry:
        yield from _faults(key, make_object, entry["competitor"], "competitor", "fit")
    elif entry["classifier"] not in CLASSIFIERS:
        yield from _faults(key, make_object, entry["classifier"], "classifier", "predict_proba")


def _check_files(key: str, dataset: Mapping) -> Iterator[str]:
    files = [*dataset.get("train", []), *dataset.get("test", [])]
    for file in files:
        yield from _faults(key, check_file_name, file)
    yield from _unknown(f"{key}.sha256", dataset["sha256"], files, "file")
    if path := dataset.get("path"):
        yield from _check_path(key, path, dataset)
    if derived := dataset.get("derived_labels"):
        labels = dataset["labels"]
        kept = [str(label) for label in (range(labels) if isinstance(labels, int) else labels)]
        yield from _unknown(f"{key}.derived_labels", map(str, derived), kept, "label")


def _check_path(key: str, path: str, dataset: Mapping) -> Iterator[str]:
    """Yield keys that the format of a local file needs or does not have."""
    needed = ["label_columns"] if is_table(path, ".csv") else [] if is_table(path) else ["test_path", *TEXT_KEYS]
    forbidden = TEXT_OPTIONS if is_table(path) else []
    yield from (f"{key}: {path} needs {name}" for name in needed if name not in dataset)
    yield from (f"{key}.{name}: {path} cannot have it" for name in forbidden if dataset.get(name))
    if not is_table(path, ".csv") and "label_columns" in dataset:
        yield f"{key}.label_columns: {path} has no named columns, only a CSV file has"
    if dataset.get("actions") == "single" and len(dataset.get("label_columns", [""])) != 1:
        yield f"{key}.label_columns: one action of K needs one column with its class"


def _check_experiment(key: str, experiment: Mapping, config: Mapping) -> Iterator[str]:
    """Yield unknown names, data sets without a number of seeds, and options that do not fit the actions."""
    curve = experiment.get("replay_curve", {})
    if "variant_of" in experiment:
        yield from _unknown(f"{key}.variant_of", [experiment["variant_of"]], config["experiments"], "experiment")
    for part, options in ((key, experiment), (f"{key}.replay_curve", curve)):
        yield from _unknown(f"{part}.datasets", options.get("datasets", []), config["datasets"], "data set")
        yield from _unknown(f"{part}.algorithms", options.get("algorithms", []), config["algorithms"], "algorithm")
    yield from _unknown(f"{key}.selection", experiment["selection"], SCORES, "held-out score")
    if isinstance(seeds := experiment["seeds"], Mapping):
        yield from _unknown(f"{key}.seeds", seeds, config["datasets"], "data set")
        if missing := [dataset for dataset in experiment["datasets"] if dataset not in seeds]:
            yield f"{key}.seeds: must have a number for each data set, but lacks {', '.join(missing)}"
    if experiment["reference"] != POEM:  # the default, which an experiment may lack
        yield from _unknown(f"{key}.reference", [experiment["reference"]], experiment["algorithms"], "algorithm")
    datasets = [*experiment["datasets"], *curve.get("datasets", [])]
    yield from _check_logging(key, experiment, config)
    yield from _check_actions(key, experiment, [name for name in datasets if name in config["datasets"]], config)


def _check_logging(key: str, experiment: Mapping, config: Mapping) -> Iterator[str]:
    """Yield a logging policy that cannot be made, and options that need the coefficients of a CRF."""
    from drcrm.bench.simulated_policies import make_policy  # imported here: most experiments log by a CRF

    if experiment["logging"] == "crf":
        return
    yield from _faults(f"{key}.logging", make_policy, experiment["logging"])
    if experiment["absent_label_score"] == "half":
        yield f"{key}.absent_label_score: 'half' needs the logging policy crf, whose training lacks labels"
    for name in [name for name in experiment["algorithms"] if name in config["algorithms"]]:
        if options_of(config, experiment, name).get("start") == "logging":
            yield f"{key}: {name!r} starts at the coefficients of the logging policy, which only crf has; use imitation"


def _check_actions(key: str, experiment: Mapping, datasets: list[str], config: Mapping) -> Iterator[str]:
    """Yield the options of an experiment that do not fit the actions of its data sets."""
    right, wrong = experiment["click_rates"]
    if right <= wrong:
        rates = f"{right:g}, {wrong:g}"
        yield f"{key}.click_rates: the rate of right actions must be above the rate of wrong ones, got {rates}"
    for dataset in datasets:
        if is_single(config, dataset):
            if experiment["absent_label_score"] == "half":
                yield f"{key}.absent_label_score: 'half' needs label vectors, but {dataset!r} has one action of K"
            continue
        if (right, wrong) != (1, 0):
            yield f"{key}.click_rates: need one action of K, but {dataset!r} has label vectors"
        for name in experiment["algorithms"]:
            if "classifier" in config["algorithms"].get(name, {}):
                yield f"{key}.algorithms: {name!r} needs one action of K, but {dataset!r} has label vectors"


def _check_evaluation(key: str, evaluation: Mapping, config: Mapping) -> Iterator[str]:
    """Yield unknown data sets, and simulators, policies and estimators that cannot be made."""
    from drcrm.bench.estimators import CLUSTERS, OF_CLUSTERS, make_estimator
    from drcrm.bench.simulate import OWN, make_policy, make_simulator

    yield from _check_datasets(f"{key}.datasets", evaluation.get("datasets", []), config, single=True)
    makers = {
        "simulators": make_simulator,
        "logging": make_policy,
        "policies": make_policy,
        "estimators": make_estimator,
    }
    for part, make in makers.items():
        for name, value in entries(evaluation.get(part, [])).items():
            if value not in (OWN, *OF_CLUSTERS):  # made for each simulator
                yield from _faults(f"{key}.{part}.{name}", make, value)
    if evaluation.get("cost_model", CLUSTERS) != CLUSTERS:
        yield from _faults(f"{key}.cost_model", make_object, evaluation["cost_model"], "cost_model", "fit")


def _check_log(name: str, entry: Mapping, config: Mapping) -> Iterator[str]:
    """Yield the faults of a log: the name of an experiment, an invalid mapping, unknown or invalid algorithms."""
    key = f"logs.{name}"
    if name in config["experiments"] or name in config["evaluations"]:
        yield f"{key}: an experiment has this name; choose another"
    try:
        algorithms = as_mapping({option: value for option, value in entry.items() if option != "path"}, key).algorithm
        for algorithm in algorithms if isinstance(algorithms, list) else [algorithms] if algorithms else []:
            if isinstance(algorithm, str):
                estimators = [key for key, options in config["algorithms"].items() if "estimator" in options]
                yield from _unknown(f"{key}.algorithm", [algorithm], estimators, "algorithm")
            else:
                as_algorithm(algorithm)
    except InputError as error:
        yield f"{key}: {error}"


def _check_datasets(key: str, names: Iterable[str], config: Mapping, single: bool) -> Iterator[str]:
    """Yield unknown data sets, and data sets with the other kind of actions."""
    kinds = "label vectors", "one action of K"
    yield from _unknown(key, names, config["datasets"], "data set")
    for name in names:
        if name in config["datasets"] and is_single(config, name) != single:
            yield f"{key}: {name!r} has {kinds[not single]}, expected {kinds[single]}"


def _check_study(key: str, study: Mapping, config: Mapping) -> Iterator[str]:
    for file in study.get("files", {}):
        yield from _faults(f"{key}.files", check_file_name, file)
    yield from _unknown(f"{key}.algorithms", study.get("algorithms", []), config["algorithms"], "algorithm")
    yield from _unknown(f"{key}.runs", study.get("runs", {}), config["experiments"], "experiment")
    for experiment, seeds in study.get("runs", {}).items():
        yield from _unknown(f"{key}.runs.{experiment}", seeds, config["datasets"], "data set")


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
