"""Parameters of the steps of the workflow, read from the completed configuration.

They contain only what a step uses, because Snakemake runs a step again if its parameters change.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from drcrm.paper.datasets.sources import Source, local_digests, read_record
from drcrm.paper.runs import LOOKS, all_datasets


def fetch_parameters(config: Mapping, dataset: str, origin: str | Path) -> dict[str, object]:
    """Return the entry of a data set without its printed names, and the digests of its files in a local mirror.

    ``origin`` is the record of earlier fetches. If a digest changes, Snakemake fetches the files again.
    """
    entry = _without(config["datasets"][dataset], "label", "paper", "differs")
    source = Source(mirror=config["mirror"], sha256=entry["sha256"])
    names = [*entry.get("train", []), *entry.get("test", [])]
    return {**entry, "digests": local_digests(source, names, read_record(origin))}


def module_files(*values: object) -> list[Path]:
    """Return the files in the working folder of all classes ``module:Class`` that values, keys and items name."""
    files = []
    for value in values:
        if isinstance(value, Mapping):
            files += module_files(*value, *value.values())
        elif isinstance(value, list):
            files += module_files(*value)
        elif isinstance(value, str) and ":" in value:
            files.append(Path(*value.split(":")[0].split(".")).with_suffix(".py"))
    return [file for file in dict.fromkeys(files) if file.exists()]


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
    entry = _without(algorithms[algorithm], "colour", "marker", "group")
    return {"name": algorithm, **{key: value for key, value in entry.items() if value}}


def options_of_entry(config: Mapping, entry: Mapping) -> dict[str, object]:
    """Return the options of a study or an evaluation that its module reads, with the entries of its algorithms."""
    options = _without(entry, "runs", "repetitions", "files", "folder")
    if "algorithms" in options:
        options["algorithms"] = {name: _without(config["algorithms"][name], *LOOKS) for name in options["algorithms"]}
    return options


def file_of_study(config: Mapping, name: str, file: str) -> dict[str, str]:
    """Return the folder in the mirror and the digest of a study's file."""
    study = config["studies"][name]
    return {"folder": study.get("folder", name), "sha256": study["files"][file]}


def provenance_parameters(config: Mapping, name: str) -> dict[str, Mapping]:
    """Return the configuration of an experiment, the theory or ``studies/NAME``, without the mirror.

    For a study, the result includes the configuration of its experiments.
    """
    kind, _, study = name.partition("/")
    if study:
        runs = {key: provenance_parameters(config, key) for key in config["studies"][study].get("runs", {})}
        algorithms = options_of_entry(config, config["studies"][study]).get("algorithms", {})
        return {"experiment": config["studies"][study], "datasets": {}, "algorithms": algorithms, "runs": runs}
    is_learning = kind in config["experiments"]
    experiment = config["theory"] if kind == "theory" else config["experiments" if is_learning else "evaluations"][kind]
    algorithms = experiment["algorithms"] if is_learning else []
    return {
        "experiment": experiment,
        "datasets": {key: config["datasets"][key] for key in all_datasets({"datasets": [], **experiment})},
        "algorithms": {key: config["algorithms"][key] for key in algorithms},
    }


def _without(entry: Mapping, *keys: str) -> dict:
    return {key: value for key, value in entry.items() if key not in keys}
