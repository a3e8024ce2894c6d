"""Runs of an experiment and the algorithms of each, read from the completed configuration."""

from collections.abc import Mapping

from drcrm.selection.score_names import MODELLED

CLASSIFIERS = ("linear", "trees", "cost_trees")  # names of classifiers; any other one is module:Class

Run = tuple[str, int, int]  # data set, replay count, seed


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


def seeds_of(experiment: Mapping, dataset: str) -> int:
    """Return the number of seeds of a data set in an experiment's tables."""
    seeds = experiment["seeds"]
    return seeds[dataset] if isinstance(seeds, Mapping) else seeds


def run_algorithms(config: Mapping, name: str, dataset: str, replays: int, seed: int) -> list[str]:
    """Return the algorithms that a run must fit for the tables, the ablation and the replay-count figure."""
    experiment = config["experiments"][name]
    in_tables = dataset in experiment["datasets"] and seed < seeds_of(experiment, dataset)
    if not (in_tables and replays == experiment["replay_count"]):
        return shown_algorithms(config, name, "replay_count")
    in_ablation = seed < experiment.get("ablation", {"seeds": 0})["seeds"]
    return all_algorithms(config, name) if in_ablation else experiment["algorithms"]


def all_algorithms(config: Mapping, name: str) -> list[str]:
    """Return the algorithms of an experiment's tables and of its ablation."""
    experiment = config["experiments"][name]
    starts = all_starts(config["algorithms"], experiment).values()
    return list(dict.fromkeys([*experiment["algorithms"], *(key for by_start in starts for key in by_start.values())]))


def all_starts(algorithms: Mapping, experiment: Mapping) -> dict[str, dict[str, str]]:
    """Return the names of an ablation's algorithms by start: NAME with its default start, else NAME_from_START."""
    ablation = experiment.get("ablation", {"algorithms": [], "starts": []})
    by_algorithm = {}
    for name in ablation["algorithms"]:
        default = algorithms[name]["options"].get("start", "zero")
        names = {start: name if start == default else f"{name}_from_{start}" for start in ablation["starts"]}
        by_algorithm[name] = names
    return by_algorithm


def shown_algorithms(config: Mapping, name: str, figure: str) -> list[str]:
    """Return the algorithms of a figure: those of the tables, except in the ablation and the replay-count figure."""
    if figure == "ablation":
        return all_algorithms(config, name)
    experiment = config["experiments"][name]
    curve = experiment["replay_curve"] if figure == "replay_count" else {}
    return curve.get("algorithms", experiment["algorithms"])


def uses_cost_model(config: Mapping, name: str) -> bool:
    """Return whether fits or scores of an experiment use a cost model."""
    from drcrm.estimates import ESTIMATES  # imported here: Snakemake reads this module at every start

    for algorithm in all_algorithms(config, name):
        options = config["algorithms"][algorithm]["options"]
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


def n_labels(config: Mapping, dataset: str) -> int:
    """Return the number of labels, or classes, of a data set."""
    labels = config["datasets"][dataset]["labels"]
    return labels if isinstance(labels, int) else len(labels)


def study_runs(config: Mapping, study: str) -> list[tuple[str, str, int, int]]:
    """Return the runs of a study: experiment, data set, replay count and seed."""
    return [
        (name, dataset, config["experiments"][name]["replay_count"], seed)
        for name, datasets in config["studies"][study].get("runs", {}).items()
        for dataset, seeds in datasets.items()
        for seed in range(seeds)
    ]
