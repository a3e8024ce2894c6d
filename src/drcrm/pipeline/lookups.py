"""What rules and documents look up of an experiment in the completed configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.scores import SCORES
from ..report.style import FIGURE_TITLES
from ..roles import REFERENCE


def all_datasets(experiment: Mapping) -> list[str]:
    """The data sets of an experiment's tables and of its replay-count figure."""
    return list(dict.fromkeys(experiment["datasets"] + experiment.get("replay_curve", {}).get("datasets", [])))


def run_algorithms(config: Mapping, name: str, dataset: str, replays: int, seed: int) -> list[str]:
    """The algorithms of a run: those of the tables and of the ablation where it enters them, else of the curve."""
    experiment = config["experiments"][name]
    in_tables = dataset in experiment["datasets"] and seed < experiment["seeds"]
    if not (in_tables and replays == experiment["replay_count"]):
        return shown_algorithms(config, name, "replay_count")
    in_ablation = seed < experiment.get("ablation", {"seeds": 0})["seeds"]
    return all_algorithms(config, name) if in_ablation else experiment["algorithms"]


def all_algorithms(config: Mapping, name: str) -> list[str]:
    """The algorithms of an experiment's tables, and those of its ablation."""
    starts = all_starts(config["algorithms"], config["experiments"][name]).values()
    added = (key for by_start in starts for key in by_start.values())
    return list(dict.fromkeys([*config["experiments"][name]["algorithms"], *added]))


def all_starts(algorithms: Mapping, experiment: Mapping) -> dict[str, dict[str, str]]:
    """The algorithms of an experiment's ablation, and what each is called as it starts from each of its starts."""
    ablation = experiment.get("ablation", {"algorithms": [], "starts": []})
    own = {name: algorithms[name]["options"].get("start", "zero") for name in ablation["algorithms"]}
    return {
        name: {start: name if start == own[name] else f"{name}_from_{start}" for start in ablation["starts"]}
        for name in own
    }


def shown_algorithms(config: Mapping, name: str, figure: str) -> list[str]:
    """The algorithms of a figure: those of the tables, of the ablation too, or of the replay-count curve."""
    if figure == "ablation":
        return all_algorithms(config, name)
    experiment = config["experiments"][name]
    curve = experiment["replay_curve"] if figure == "replay_count" else {}
    return curve.get("algorithms", experiment["algorithms"])


def uses_logging_policy(algorithm: Mapping) -> bool:
    """Whether an algorithm's fits start from π0."""
    return algorithm["options"].get("start") in ("logging", "model")


def uses_cost_model(config: Mapping, name: str) -> bool:
    """Whether an experiment's fits or its scores take a cost model."""
    experiment = config["experiments"][name]
    options = [config["algorithms"][each]["options"] for each in all_algorithms(config, name)]
    modelled = any(each.get("estimate") in ("dr", "dm") or each.get("start") == "model" for each in options)
    return modelled or any(score.startswith("dr") for score in experiment["selection"])


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
    algorithms = {each: config["algorithms"][each] for each in all_algorithms(config, name)}
    parts = ("label", "colour", "marker", "group")
    looks = {key: {part: each[part] for part in parts} for key, each in algorithms.items()}
    datasets = {each: label(config, each) for each in all_datasets(experiment)}
    return {"algorithms": looks, "datasets": datasets, "starts": all_starts(config["algorithms"], experiment)}


def settings(config: Mapping, name: str) -> dict[str, Mapping]:
    """An experiment with its data sets and algorithms; the mirror is not among them."""
    experiment = config["experiments"][name]
    used = {"datasets": all_datasets(experiment), "algorithms": all_algorithms(config, name)}
    return {"experiment": experiment, **{kind: {each: config[kind][each] for each in used[kind]} for kind in used}}


def label(config: Mapping, dataset: str) -> str:
    """What a data set is called in print."""
    return config["datasets"][dataset]["label"]


def named(config: Mapping, name: str, datasets: Sequence[str]) -> dict[str, object]:
    """What data sets and selections of an experiment are called in a caption, and what was held out and certified."""
    experiment = config["experiments"][name]
    return {
        "data": ", ".join(label(config, each) for each in datasets),
        "selection": [SCORES[each] for each in experiment["selection"]],
        "held_out": experiment["split_unit"],
        "certified": "the doubly robust estimate" if uses_cost_model(config, name) else "SNIPS",
    }


def shown(experiment: Mapping, figure: str) -> dict[str, object]:
    """The seeds and replay counts of a figure: those of the replay-count curve, of the ablation, or of the tables."""
    if figure == "replay_count":
        return experiment["replay_curve"]
    seeds = experiment["seeds"] if figure != "ablation" else min(experiment["ablation"]["seeds"], experiment["seeds"])
    return {"seeds": seeds, "counts": [experiment["replay_count"]]}


def figure_datasets(experiment: Mapping) -> dict[str, list[str]]:
    """The figures of an experiment, and of which data sets each is drawn."""
    figures = {figure: experiment["datasets"] for figure in FIGURE_TITLES}
    figures["replay_count"] = experiment.get("replay_curve", {"datasets": []})["datasets"]
    if "ablation" not in experiment:
        del figures["ablation"]
    if REFERENCE not in experiment["algorithms"]:
        del figures["paired"]
    return figures


def protocol(experiment: Mapping) -> dict[str, object]:
    """What an experiment decides where the paper's text and the public code differ, but the replay count."""
    options = ("split_unit", "logging_c", "absent_label_score", "variance_penalty_scale")
    return {option: experiment[option] for option in options}
