"""Parameters of the pipeline's steps as JSON objects, read from the completed configuration.

An object contains only what its step uses, because Snakemake runs a step again if its parameters change.
"""

import json
from collections.abc import Mapping

from drcrm.experiments.report_plans import LOOKS
from drcrm.experiments.runs import all_algorithms, all_datasets
from drcrm.risks import VariancePenalizedRisk
from drcrm.selection.registry.algorithms import find_risk


def fetch_parameters(config: Mapping, dataset: str) -> dict[str, object]:
    """Return the entry of a data set without its printed names."""
    return _without(config["datasets"][dataset], "label", "paper", "differs")


def fit_parameters(config: Mapping, name: str, algorithm: str) -> dict[str, object]:
    """Return the entry of an algorithm. ``calibrated`` says whether its grid is in units of POEM's λ0."""
    entry, experiment = config["algorithms"][algorithm], config["experiments"][name]
    is_poem = find_risk(entry["estimator"]) is VariancePenalizedRisk
    is_calibrated = is_poem and entry.get("parameter") == "variance_penalty"
    return {
        "estimator": entry["estimator"],
        "parameter": entry.get("parameter"),
        "grid": entry.get("grid", []),
        "options": entry["options"],
        "calibrated": is_calibrated and experiment["variance_penalty_scale"] == "calibrated",
        "stopping": experiment["stopping"],
    }


def mapping_of(config: Mapping, name: str) -> str:
    """Return the mapping of a log as JSON. The entries of algorithms replace their names."""
    mapping = _without(config["logs"][name], "path")
    if algorithms := mapping.get("algorithm"):
        algorithms = algorithms if isinstance(algorithms, list) else [algorithms]
        mapping["algorithm"] = [_entry(config["algorithms"], algorithm) for algorithm in algorithms]
    return json.dumps(mapping, sort_keys=True)


def _entry(algorithms: Mapping, algorithm: object) -> object:
    """Return the entry of an algorithm for a mapping. An entry, or the name of a classifier, is returned unchanged."""
    if not isinstance(algorithm, str) or "estimator" not in algorithms.get(algorithm, {}):
        return algorithm
    entry = {key: algorithms[algorithm].get(key) for key in ("label", "estimator", "parameter", "grid", "options")}
    return {"name": algorithm, **{key: value for key, value in entry.items() if value}}


def study_options(config: Mapping, study: str) -> dict[str, object]:
    """Return the options of a study except its runs and files. Entries replace the names of its algorithms."""
    options = _without(config["studies"][study], "runs", "files", "folder")
    if "algorithms" in options:
        options["algorithms"] = {name: _without(config["algorithms"][name], *LOOKS) for name in options["algorithms"]}
    return options


def provenance_parameters(config: Mapping, name: str) -> dict[str, Mapping]:
    """Return the configuration of an experiment, the theory or ``studies/NAME``, without the mirror.

    For a study, the result includes the configuration of its experiments.
    """
    kind, _, study = name.partition("/")
    if study:
        runs = {key: provenance_parameters(config, key) for key in config["studies"][study].get("runs", {})}
        algorithms = study_options(config, study).get("algorithms", {})
        return {"experiment": config["studies"][study], "datasets": {}, "algorithms": algorithms, "runs": runs}
    experiment = config["theory"] if kind == "theory" else config["experiments"][kind]
    algorithms = [] if kind == "theory" else all_algorithms(config, kind)
    return {
        "experiment": experiment,
        "datasets": {key: config["datasets"][key] for key in all_datasets(experiment)},
        "algorithms": {key: config["algorithms"][key] for key in algorithms},
    }


def _without(entry: Mapping, *keys: str) -> dict:
    return {key: value for key, value in entry.items() if key not in keys}
