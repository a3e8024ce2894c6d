"""What rules and documents look up of an experiment in the completed configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..registry import REFERENCE, SCORES
from ..report.style import FIGURES


def all_datasets(experiment: Mapping) -> list[str]:
    """The data sets of an experiment's tables and of its replay-count figure."""
    return list(dict.fromkeys(experiment["datasets"] + experiment.get("replay_curve", {}).get("datasets", [])))


def n_labels(config: Mapping, dataset: str) -> int:
    """How many labels a data set has."""
    labels = config["datasets"][dataset]["labels"]
    return labels if isinstance(labels, int) else len(labels)


def grids(config: Mapping, name: str) -> dict[str, list[float]]:
    """The grids of an experiment's algorithms."""
    return {each: config["algorithms"][each].get("grid", []) for each in config["experiments"][name]["algorithms"]}


def papers(config: Mapping, name: str) -> dict[str, tuple[str, str]]:
    """The paper's data set that each of an experiment's stands for, and how it differs."""
    datasets = {each: config["datasets"][each] for each in config["experiments"][name]["datasets"]}
    return {key: (each["paper"], each.get("differs", "")) for key, each in datasets.items() if "paper" in each}


def names(config: Mapping, name: str) -> dict[str, dict]:
    """How an experiment's algorithms and data sets are named and drawn, as ``drcrm.report.style.Names`` has it."""
    experiment = config["experiments"][name]
    algorithms = {each: config["algorithms"][each] for each in experiment["algorithms"]}
    looks = {key: {part: each[part] for part in ("label", "colour", "marker")} for key, each in algorithms.items()}
    return {"algorithms": looks, "datasets": {each: label(config, each) for each in all_datasets(experiment)}}


def label(config: Mapping, dataset: str) -> str:
    """What a data set is called in print."""
    return config["datasets"][dataset]["label"]


def named(config: Mapping, name: str, datasets: Sequence[str]) -> dict[str, object]:
    """What data sets and the selections of an experiment are called in a caption."""
    return {
        "data": ", ".join(label(config, each) for each in datasets),
        "selection": [SCORES[each].label for each in config["experiments"][name]["selection"]],
    }


def shown(experiment: Mapping, figure: str) -> dict[str, object]:
    """The seeds and replay counts of a figure: those of the replay-count curve, or of the tables."""
    if figure == "replay_count":
        return experiment["replay_curve"]
    return {"seeds": experiment["seeds"], "counts": [experiment["replay_count"]]}


def figure_datasets(experiment: Mapping) -> dict[str, list[str]]:
    """The figures of an experiment, and of which data sets each is drawn."""
    figures = {figure: experiment["datasets"] for figure in FIGURES}
    figures["replay_count"] = experiment.get("replay_curve", {"datasets": []})["datasets"]
    if REFERENCE not in experiment["algorithms"]:
        del figures["paired"]
    return figures


def protocol(experiment: Mapping) -> dict[str, object]:
    """What an experiment decides where the paper's text and the public code differ, but the replay count."""
    options = ("split_unit", "logging_c", "absent_label_score", "variance_penalty_scale")
    return {option: experiment[option] for option in options}
