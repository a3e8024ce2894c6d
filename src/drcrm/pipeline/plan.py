"""What tables, figures and the overview show of an experiment: one JSON object, from the configuration to a step."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from ..core.names import SCORES
from .lookups import all_algorithms, all_datasets, all_starts, label, n_labels, shown_algorithms, uses_cost_model

PROTOCOL = ("split_unit", "logging_c", "absent_label_score", "variance_penalty_scale")
LOOKS = ("label", "colour", "marker", "group")


@dataclass(frozen=True)
class Plan:
    """What a step shows of an experiment's results. It holds what the step uses and no more: a change runs it again.

    Parameters
    ----------
    datasets, selections : lists of str
        In their order, the headline selection first.
    seeds : int
        How many each mean must have: those from 0.
    counts : list of int
        Replay counts; those that are shown of a single one take the first.
    algorithms : list of str, optional
        Those shown beside π0 and the skyline; by default all.
    title : str
        The experiment's name.
    names : dict
        Labels, colours and markers, as ``drcrm.report.style.Names`` has them.
    labels : data set → its number of labels
    protocol : dict
        What the experiment decides where the paper's text and the public code differ, but the replay count.
    grids : algorithm → the values of its grid
    papers : data set → (the paper's data set that it stands for, in words how the data differ)
    """

    datasets: Sequence[str]
    selections: Sequence[str]
    seeds: int
    counts: Sequence[int]
    algorithms: Sequence[str] | None = None
    title: str = ""
    names: Mapping[str, Mapping] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    protocol: Mapping[str, object] = field(default_factory=dict)
    grids: Mapping[str, Sequence[float]] = field(default_factory=dict)
    papers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self):
        if not (self.datasets and self.counts and min(self.seeds, *self.counts) >= 1):
            raise ValueError("expected data sets, and seeds and counts from 1")
        if not self.selections or set(self.selections) - set(SCORES):
            raise ValueError(f"selections are {self.selections}, expected some of {', '.join(SCORES)}")

    def json(self) -> str:
        """Itself as ``parse`` reads it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """An argument type: a plan as JSON."""
        try:
            given = json.loads(text)
            if unknown := set(given) - {each.name for each in fields(cls)}:
                raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
            return cls(**given)
        except (ValueError, TypeError, RecursionError) as error:
            raise argparse.ArgumentTypeError(f"not a plan ({error})") from None


def planned(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> Plan:
    """The plan of an experiment's ``tables``, its ``overview``, or a figure by its name, of these data sets or all."""
    experiment = config["experiments"][name]
    datasets, selections = datasets or experiment["datasets"], experiment["selection"]
    shown = {"algorithms": shown_algorithms(config, name, part), **runs_shown(experiment, part)}
    names = looks(config, name, all_datasets(experiment) if part == "tables" else datasets)
    if part == "tables":
        known = {each: config["datasets"][each] for each in datasets}
        return Plan(
            datasets,
            selections,
            **shown,
            names=names,
            protocol={option: experiment[option] for option in PROTOCOL},
            grids={each: config["algorithms"][each].get("grid", []) for each in experiment["algorithms"]},
            papers={key: (each["paper"], each.get("differs", "")) for key, each in known.items() if "paper" in each},
        )
    shown["labels"] = {each: n_labels(config, each) for each in datasets}
    if part == "overview":
        return Plan(datasets, selections[:1], **shown, names=names, title=name)
    if part == "ablation":
        names["starts"] = all_starts(config["algorithms"], experiment)
    return Plan(datasets, selections, **shown, names=names, protocol={"split_unit": experiment["split_unit"]})


def looks(config: Mapping, name: str, datasets: Sequence[str]) -> dict[str, dict]:
    """How an experiment's algorithms are drawn, and what they and data sets are called."""
    algorithms = {each: config["algorithms"][each] for each in all_algorithms(config, name)}
    return {
        "algorithms": {key: {part: each[part] for part in LOOKS} for key, each in algorithms.items()},
        "datasets": {each: label(config, each) for each in datasets},
    }


def runs_shown(experiment: Mapping, part: str) -> dict[str, object]:
    """The seeds and replay counts of a part: those of the replay-count curve, of the ablation, or of the tables."""
    if part == "replay_count":
        return {key: experiment["replay_curve"][key] for key in ("seeds", "counts")}
    seeds = experiment["seeds"] if part != "ablation" else min(experiment["ablation"]["seeds"], experiment["seeds"])
    return {"seeds": seeds, "counts": [experiment["replay_count"]]}


def caption_words(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> dict[str, object]:
    """What a caption says of a part: data sets, selections, seeds, replay counts, what was held out and certified."""
    experiment = config["experiments"][name]
    return {
        "data": ", ".join(label(config, each) for each in datasets or experiment["datasets"]),
        "selection": [SCORES[each] for each in experiment["selection"]],
        "held_out": experiment["split_unit"],
        "certified": "the doubly robust estimate" if uses_cost_model(config, name) else "SNIPS",
        **runs_shown(experiment, part),
    }
