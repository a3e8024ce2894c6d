"""Plans of an experiment's tables and figures, and words of their captions, from the completed configuration."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from drcrm.experiments.runs import (
    all_algorithms,
    all_datasets,
    all_starts,
    is_single,
    n_labels,
    seeds_of,
    shown_algorithms,
    uses_cost_model,
)
from drcrm.reports.figures.style import FIGURE_TITLES, Names, join
from drcrm.reports.roles import ENOUGH_SEEDS, LABELS, REFERENCE, SINGLE
from drcrm.reports.tables.plan import PROTOCOL, Plan
from drcrm.selection.score_names import SCORES

LOOKS = ("label", "colour", "marker", "group")
SYMBOLS = {"variance_penalty": "λ", "temperature": "γ", "radius": "ε", "smoothing": "λ", "weight.exponent": "α"}


def figure_datasets(experiment: Mapping) -> dict[str, list[str]]:
    """Return the data sets of each figure of an experiment, by the figure's name."""
    figures = {figure: experiment["datasets"] for figure in FIGURE_TITLES}
    figures["replay_count"] = experiment.get("replay_curve", {"datasets": []})["datasets"]
    if "ablation" not in experiment:
        del figures["ablation"]
    if REFERENCE not in experiment["algorithms"]:
        del figures["paired"]
    return figures


def report_plan(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> Plan:
    """Return the plan of a part of the report: ``tables``, ``overview`` or a figure.

    By default the plan has all data sets of the experiment.
    """
    experiment = config["experiments"][name]
    datasets, selections = datasets or experiment["datasets"], experiment["selection"]
    contents = {"algorithms": shown_algorithms(config, name, part), **runs_shown(experiment, part, datasets)}
    names = looks(config, name, all_datasets(experiment) if part == "tables" else datasets)
    if part == "tables":
        entries = {dataset: config["datasets"][dataset] for dataset in datasets}
        return Plan(
            datasets,
            selections,
            **contents,
            names=names,
            protocol={option: experiment[option] for option in PROTOCOL},
            grids={key: config["algorithms"][key].get("grid", []) for key in experiment["algorithms"]},
            papers={
                key: (entry["paper"], entry.get("differs", "")) for key, entry in entries.items() if "paper" in entry
            },
        )
    contents["translations"] = {dataset: translation(config, name, dataset) for dataset in datasets}
    if part == "overview":
        contents["log"] = describe_log(config, name, datasets)
        return Plan(datasets, selections[:1], **contents, names=names, title=name)
    if part == "ablation":
        names = replace(names, starts=all_starts(config["algorithms"], experiment))
    return Plan(datasets, selections, **contents, names=names, protocol={"split_unit": experiment["split_unit"]})


def looks(config: Mapping, name: str, datasets: Sequence[str]) -> Names:
    """Return the colours, markers and printed names of an experiment's algorithms and data sets."""
    algorithms = {key: config["algorithms"][key] for key in all_algorithms(config, name)}
    drawn = {
        key: {**{part: entry[part] for part in LOOKS}, "parameter": quantity(entry, config["experiments"][name])}
        for key, entry in algorithms.items()
    }
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

    The replay-count figure and the ablation have their own seeds and counts. If the experiment has a number of seeds
    for each data set, so does the result.
    """
    if part == "replay_count":
        return {key: experiment["replay_curve"][key] for key in ("seeds", "counts")}
    limit = experiment["ablation"]["seeds"] if part == "ablation" else math.inf
    by_dataset = {dataset: min(limit, seeds_of(experiment, dataset)) for dataset in datasets or experiment["datasets"]}
    seeds = by_dataset if isinstance(experiment["seeds"], Mapping) else max(by_dataset.values())
    return {"seeds": seeds, "counts": [experiment["replay_count"]]}


def translation(config: Mapping, name: str, dataset: str) -> tuple[float, float]:
    """Return the unit and the offset for which an expected logged cost is unit · loss − offset."""
    right, wrong = config["experiments"][name].get("click_rates", (1, 0))
    return (right - wrong, right) if is_single(config, dataset) else (1, n_labels(config, dataset))


def describe_log(config: Mapping, name: str, datasets: Sequence[str]) -> str:
    """Describe unusual options of an experiment: π0's sharpness, click rates for one action of K, shifted test sets."""
    experiment, parts = config["experiments"][name], []
    sharpness, (right, wrong) = experiment.get("logging_sharpness", 1), experiment.get("click_rates", (1, 0))
    if sharpness != 1:
        parts.append(f"π0's scores × {sharpness:g}")
    if (right, wrong) != (1, 0) and any(is_single(config, dataset) for dataset in datasets):
        parts.append(f"clicks with probability {right:g} for the right action, {wrong:g} for another")
    if (radius := experiment.get("test_shift")) is not None:
        parts.append(f"test sets shifted within the KL divergence {radius:g}")
    return ", ".join(parts)


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
        "certified": "the doubly robust estimate" if uses_cost_model(config, name) else "SNIPS",
    }
