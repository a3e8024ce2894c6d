"""What the workflow's rules derive from the configuration, such as runs, parameters and plans.

Parameters and plans contain only what a step uses, because Snakemake runs a step again if its parameters change.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drcrm.optimization.starts import STARTS
from drcrm.paper import ENOUGH_SEEDS, LABELS, SINGLE
from drcrm.paper.reports.plan import FIGURE_TITLES, PROTOCOL, TESTS, Names, Plan, join
from drcrm.paper.sources import Source, local_digests, read_record
from drcrm.selection.score_names import MODELLED, SCORES

CLASSIFIERS = ("linear", "trees", "cost_trees")  # names of classifiers; any other one is module:Class

SPLIT = ("split_unit", "logging_fraction", "heldout_fraction")
SHARED = {
    "split": SPLIT,
    "skyline": SPLIT,
    "logging": (*SPLIT, "logging", "logging_c", "logging_sharpness"),
}  # files → options

Run = tuple[str, int, int]  # data set, replay count, seed
LOOKS = ("label", "colour", "marker", "group")
SYMBOLS = {"variance_penalty": "λ", "temperature": "γ", "radius": "ε", "smoothing": "λ", "weight.exponent": "α"}


def all_datasets(experiment: Mapping) -> list[str]:
    """Return the data sets of an experiment's tables and of its replay-count figure."""
    return list(dict.fromkeys(experiment["datasets"] + experiment.get("replay_curve", {}).get("datasets", [])))


def all_runs(experiment: Mapping) -> list[Run]:
    """Return the distinct runs of an experiment's tables and of its replay-count figure."""
    curve = experiment.get("replay_curve", {"datasets": [], "counts": [], "seeds": 0})
    count = experiment["replay_count"]
    tables = {(d, count, s) for d in experiment["datasets"] for s in range(seeds_of(experiment, d))}
    figure = {(d, c, s) for d in curve["datasets"] for c in curve["counts"] for s in range(curve["seeds"])}
    return sorted(tables | figure)


def home_of(config: Mapping, name: str, file: str) -> str:
    """Return the experiment whose folder has the ``split``, the ``skyline`` or π0 (``logging``) of an experiment.

    A variant shares such a file with its original experiment if they agree in the options on which the file depends.
    """
    experiments = config["experiments"]
    original = experiments[name].get("variant_of", name)
    is_shared = all(experiments[name][option] == experiments[original][option] for option in SHARED[file])
    return original if is_shared else name


def seeds_of(experiment: Mapping, dataset: str) -> int:
    """Return the number of seeds of a data set in an experiment's tables."""
    seeds = experiment["seeds"]
    return seeds[dataset] if isinstance(seeds, Mapping) else seeds


def run_algorithms(config: Mapping, name: str, dataset: str, replays: int, seed: int) -> list[str]:
    """Return the algorithms that a run must fit for the tables and the replay-count figure."""
    experiment = config["experiments"][name]
    in_tables = dataset in experiment["datasets"] and seed < seeds_of(experiment, dataset)
    if not (in_tables and replays == experiment["replay_count"]):
        return shown_algorithms(config, name, "replay_count")
    return experiment["algorithms"]


def options_of(config: Mapping, experiment: Mapping, algorithm: str) -> dict[str, object]:
    """Return the options of an algorithm in an experiment. A start of the experiment replaces that of the algorithm."""
    start = experiment.get("start")
    return {**config["algorithms"][algorithm]["options"], **({"start": start} if start else {})}


def algorithm_entry(config: Mapping, wildcards: Mapping) -> dict[str, object]:
    """Return the entry of the algorithm or the classifier of a job, without its look.

    If its hyper-parameter is the variance penalty, the entry has the scale of this penalty in the experiment.
    """
    experiment = config["experiments"][wildcards["experiment"]]
    name = wildcards.get("algorithm") or wildcards["classifier"]
    entry = {key: value for key, value in config["algorithms"][name].items() if key not in LOOKS}
    scaled = ["variance_penalty_scale"] if entry.get("parameter") == "variance_penalty" else []
    return {**entry, **{key: experiment[key] for key in scaled}, "options": options_of(config, experiment, name)}


def shown_algorithms(config: Mapping, name: str, figure: str) -> list[str]:
    """Return the algorithms of a figure: those of the tables, except in the replay-count figure.

    The replay-count figure leaves out algorithms that are not in the tables. If none is left, it shows all of these.
    """
    experiment = config["experiments"][name]
    curve = experiment["replay_curve"] if figure == "replay_count" else {}
    names = experiment["algorithms"]
    return [name for name in curve.get("algorithms", names) if name in names] or names


def uses_cost_model(config: Mapping, name: str) -> bool:
    """Return whether fits or scores of an experiment use a cost model."""
    from drcrm.estimates import ESTIMATES  # imported here: Snakemake reads this module at every start

    for algorithm in config["experiments"][name]["algorithms"]:
        options = options_of(config, config["experiments"][name], algorithm)
        estimate = ESTIMATES.get(options.get("estimate"))
        if (estimate and estimate.uses_model) or options.get("start") == "model" or options.get("safe"):
            return True
    return any(score in MODELLED for score in config["experiments"][name]["selection"])


def is_single(config: Mapping, dataset: str) -> bool:
    """Return whether an action on a data set is one of K classes rather than a vector of labels."""
    return config["datasets"][dataset].get("actions") == "single"


def is_classifier(config: Mapping, algorithm: str) -> bool:
    """Return whether an algorithm is a classifier or a user's competitor rather than an estimator."""
    return not {"classifier", "competitor"}.isdisjoint(config["algorithms"].get(algorithm, {}))


def study_runs(config: Mapping, study: str) -> list[tuple[str, str, int, int]]:
    """Return the runs of a study: experiment, data set, replay count and seed."""
    return [
        (name, dataset, config["experiments"][name]["replay_count"], seed)
        for name, datasets in config["studies"][study].get("runs", {}).items()
        for dataset, seeds in datasets.items()
        for seed in range(seeds)
    ]


def figure_datasets(experiment: Mapping) -> dict[str, list[str]]:
    """Return the data sets of each figure of an experiment, by the figure's name."""
    figures = {figure: experiment["datasets"] for figure in FIGURE_TITLES}
    figures["replay_count"] = experiment.get("replay_curve", {"datasets": []})["datasets"]
    return figures


def report_plan(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> Plan:
    """Return the plan of a part of the report: ``tables``, ``overview`` or a figure.

    By default the plan has all data sets of the experiment.
    """
    experiment = config["experiments"][name]
    datasets, selections = datasets or experiment["datasets"], experiment["selection"]
    labelled = all_datasets(experiment) if part == "tables" else datasets
    contents: dict[str, Any] = {"title": name, "names": looks(config, name, labelled)}
    contents |= {"algorithms": shown_algorithms(config, name, part), **runs_shown(experiment, part, datasets)}
    if part == "tables":
        contents |= {option: experiment[option] for option in TESTS}
        contents["protocol"] = {option: experiment[option] for option in PROTOCOL}
        contents["grids"] = {key: config["algorithms"][key].get("grid", []) for key in experiment["algorithms"]}
        papers = {key: config["datasets"][key] for key in datasets if "paper" in config["datasets"][key]}
        contents["papers"] = {key: (entry["paper"], entry.get("differs", "")) for key, entry in papers.items()}
    elif part == "overview":
        selections, contents["log"] = selections[:1], describe_log(config, name, datasets)
    else:
        contents |= {"figure": part, "protocol": {"split_unit": experiment["split_unit"]}}
    return Plan(datasets, selections, **contents)


def looks(config: Mapping, name: str, datasets: Sequence[str]) -> Names:
    """Return the colours, markers and printed names of an experiment's algorithms and data sets."""
    experiment, drawn = config["experiments"][name], {}
    for key in experiment["algorithms"]:
        entry = config["algorithms"][key]
        drawn[key] = {**{part: entry[part] for part in LOOKS}, "parameter": quantity(entry, experiment)}
    kinds = {dataset: SINGLE if is_single(config, dataset) else LABELS for dataset in datasets}
    return Names(drawn, {dataset: config["datasets"][dataset]["label"] for dataset in datasets}, actions=kinds)


def quantity(entry: Mapping, experiment: Mapping) -> str:
    """Return the name and the symbol of the quantity of an algorithm's grid."""
    parameter = str(entry.get("parameter", ""))
    name, symbol = parameter.rpartition(".")[2].replace("_", " "), SYMBOLS.get(parameter, "")
    if parameter == "variance_penalty" and experiment["variance_penalty_scale"] == "calibrated":
        symbol += "/λ0"
    return f"{name} {symbol}".strip()


def runs_shown(experiment: Mapping, part: str, datasets: Sequence[str] = ()) -> dict[str, object]:
    """Return the seeds and the replay counts that a part of the report shows.

    The replay-count figure has its own seeds and counts. If the experiment has a number of seeds for each data set, so
    does the result.
    """
    if part == "replay_count":
        return {key: experiment["replay_curve"][key] for key in ("seeds", "counts")}
    by_dataset = {dataset: seeds_of(experiment, dataset) for dataset in datasets or experiment["datasets"]}
    seeds = by_dataset if isinstance(experiment["seeds"], Mapping) else max(by_dataset.values())
    return {"seeds": seeds, "counts": [experiment["replay_count"]]}


def describe_log(config: Mapping, name: str, datasets: Sequence[str]) -> str:
    """Describe unusual options of an experiment: π0, its sharpness, click rates for one action of K, starts, shifts."""
    experiment, parts = config["experiments"][name], []
    if (logging := experiment.get("logging", "crf")) != "crf":
        parts.append(f"π0 is {describe(logging)}")
    sharpness, (right, wrong) = experiment.get("logging_sharpness", 1), experiment.get("click_rates", (1, 0))
    if sharpness != 1:
        parts.append(f"π0's scores × {sharpness:g}")
    if (right, wrong) != (1, 0) and any(is_single(config, dataset) for dataset in datasets):
        parts.append(f"clicks with probability {right:g} for the right action, {wrong:g} for another")
    if start := experiment.get("start"):
        parts.append(f"all fits start at {STARTS[start]}")
    if (radius := experiment.get("test_shift")) is not None:
        parts.append(f"test sets shifted within the KL divergence {radius:g}")
    return ", ".join(parts)


def describe(value: object) -> str:
    """Return a name, or a name with its parameters: "epsilon_greedy (epsilon 0.1)"."""
    name, parameters = next(iter(value.items())) if isinstance(value, Mapping) else (value, None)
    texts = ", ".join(f"{key} {parameter}" for key, parameter in (parameters or {}).items())
    return f"{name} ({texts})" if texts else str(name)


def caption_words(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> dict[str, object]:
    """Return the words that fill in the caption of ``tables``, ``overview`` or a figure."""
    experiment = config["experiments"][name]
    datasets = datasets or experiment["datasets"]
    names, runs = looks(config, name, datasets), runs_shown(experiment, part, datasets)
    seeds = runs["seeds"] if isinstance(runs["seeds"], Mapping) else dict.fromkeys(datasets, runs["seeds"])
    return {
        "data": join(map(names.dataset, datasets)),
        "actions": {kind: ", ".join(map(names.dataset, of)) for kind, of in names.by_actions(datasets).items()},
        "loss": names.word("loss", datasets),
        "supervised": names.word("supervised", datasets),
        "log": describe_log(config, name, datasets),
        "seeds": names.seeds(seeds),
        "few_seeds": max(seeds.values()) < ENOUGH_SEEDS,
        "counts": runs["counts"],
        "selection": [SCORES[score] for score in experiment["selection"]],
        "criteria": join((SCORES[score] for score in experiment["selection"]), "or"),
        "held_out": experiment["split_unit"],
        "reference": names.label(experiment["reference"]) if experiment["reference"] in names.algorithms else "",
        "certified": "the doubly robust estimate" if uses_cost_model(config, name) else "SNIPS",
    }


def entries(values: object) -> dict[str, object]:
    """Return the parts of an evaluation by name, from a map or from a list of names."""
    return dict(values) if isinstance(values, Mapping) else {name: name for name in values}


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
        names = algorithms if isinstance(algorithms, list) else [algorithms]
        mapping["algorithm"] = [_entry(config["algorithms"], algorithm) for algorithm in names]
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
