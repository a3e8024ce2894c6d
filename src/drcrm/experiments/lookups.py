"""What rules and documents look up of an experiment in the completed configuration, and what rules tell the steps."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drcrm.reports.figures.style import FIGURE_TITLES, Names
from drcrm.reports.roles import LABELS, REFERENCE, SINGLE
from drcrm.reports.tables.plan import PROTOCOL, Plan
from drcrm.selection.algorithms import find_estimator
from drcrm.selection.score_names import MODELLED, SCORES

Run = tuple[str, int, int]  # data set, replay count, seed
LOOKS = ("label", "colour", "marker", "group")


def all_datasets(experiment: Mapping) -> list[str]:
    """The data sets of an experiment's tables and of its replay-count figure."""
    return list(dict.fromkeys(experiment["datasets"] + experiment.get("replay_curve", {}).get("datasets", [])))


def all_runs(experiment: Mapping) -> list[Run]:
    """The runs of an experiment's tables and of its replay-count figure, each once."""
    curve = experiment.get("replay_curve", {"datasets": [], "counts": [], "seeds": 0})
    count = experiment["replay_count"]
    tables = [(d, count, s) for d in experiment["datasets"] for s in range(seeds_of(experiment, d))]
    figure = [(d, c, s) for d in curve["datasets"] for c in curve["counts"] for s in range(curve["seeds"])]
    return sorted(dict.fromkeys(tables + figure))


def seeds_of(experiment: Mapping, dataset: str) -> int:
    """How many seeds of a data set are in an experiment's tables."""
    seeds = experiment["seeds"]
    return seeds[dataset] if isinstance(seeds, Mapping) else seeds


def run_algorithms(config: Mapping, name: str, dataset: str, replays: int, seed: int) -> list[str]:
    """The algorithms of a run: those of the tables and of the ablation where it enters them, else of the curve."""
    experiment = config["experiments"][name]
    in_tables = dataset in experiment["datasets"] and seed < seeds_of(experiment, dataset)
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


def uses_cost_model(config: Mapping, name: str) -> bool:
    """Whether an experiment's fits or its scores take a cost model."""
    experiment = config["experiments"][name]
    options = [config["algorithms"][each]["options"] for each in all_algorithms(config, name)]
    modelled = any(
        each.get("estimate") in ("dr", "dm") or each.get("start") == "model" or each.get("safe") for each in options
    )
    return modelled or any(score in MODELLED for score in experiment["selection"])


def mapping_of(config: Mapping, name: str) -> str:
    """The mapping of a log of one's own, as JSON, with the configuration's entries in place of algorithms' names."""
    mapping = {key: value for key, value in config["logs"][name].items() if key != "path"}
    if asked := mapping.get("algorithm"):
        many = asked if isinstance(asked, list) else [asked]
        mapping["algorithm"] = [_entry(config["algorithms"], each) for each in many]
    return json.dumps(mapping, sort_keys=True)


def _entry(algorithms: Mapping, asked: object) -> object:
    """An algorithm's entry as a mapping has it, where there is one of that name."""
    if not isinstance(asked, str) or "estimator" not in algorithms.get(asked, {}):
        return asked
    known = {key: algorithms[asked].get(key) for key in ("label", "estimator", "parameter", "grid", "options")}
    return {"name": asked, **{key: each for key, each in known.items() if each}}


def is_single(config: Mapping, dataset: str) -> bool:
    """Whether an action of a data set is one of its classes, in place of a vector of labels."""
    return config["datasets"][dataset].get("actions") == "single"


def n_labels(config: Mapping, dataset: str) -> int:
    """How many labels, or classes, a data set has."""
    labels = config["datasets"][dataset]["labels"]
    return labels if isinstance(labels, int) else len(labels)


def label(config: Mapping, dataset: str) -> str:
    """What a data set is called in print."""
    return config["datasets"][dataset]["label"]


def figure_datasets(experiment: Mapping) -> dict[str, list[str]]:
    """The figures of an experiment, and of which data sets each is drawn."""
    figures = {figure: experiment["datasets"] for figure in FIGURE_TITLES}
    figures["replay_count"] = experiment.get("replay_curve", {"datasets": []})["datasets"]
    if "ablation" not in experiment:
        del figures["ablation"]
    if REFERENCE not in experiment["algorithms"]:
        del figures["paired"]
    return figures


def planned(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> Plan:
    """The plan of an experiment's ``tables``, its ``overview``, or a figure by its name, of these data sets or all."""
    experiment = config["experiments"][name]
    datasets, selections = datasets or experiment["datasets"], experiment["selection"]
    shown = {"algorithms": shown_algorithms(config, name, part), **runs_shown(experiment, part, datasets)}
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
    shown["translations"] = {each: translation(config, name, each) for each in datasets}
    if part == "overview":
        shown["log"] = log_in_words(config, name, datasets)
        return Plan(datasets, selections[:1], **shown, names=names, title=name)
    if part == "ablation":
        names = replace(names, starts=all_starts(config["algorithms"], experiment))
    return Plan(datasets, selections, **shown, names=names, protocol={"split_unit": experiment["split_unit"]})


def looks(config: Mapping, name: str, datasets: Sequence[str]) -> Names:
    """How an experiment's algorithms are drawn, and what they and data sets are called."""
    algorithms = {each: config["algorithms"][each] for each in all_algorithms(config, name)}
    drawn = {key: {part: each[part] for part in LOOKS} for key, each in algorithms.items()}
    kinds = {each: SINGLE if is_single(config, each) else LABELS for each in datasets}
    return Names(drawn, {each: label(config, each) for each in datasets}, actions=kinds)


def runs_shown(experiment: Mapping, part: str, datasets: Sequence[str] = ()) -> dict[str, object]:
    """The seeds and replay counts of a part: those of the replay-count curve, of the ablation, or of the tables.

    Where the experiment has seeds by data set, so are these, of the data sets that are given, by default all.
    """
    if part == "replay_count":
        return {key: experiment["replay_curve"][key] for key in ("seeds", "counts")}
    most = experiment["ablation"]["seeds"] if part == "ablation" else math.inf
    of_each = {each: min(most, seeds_of(experiment, each)) for each in datasets or experiment["datasets"]}
    seeds = of_each if isinstance(experiment["seeds"], Mapping) else max(of_each.values())
    return {"seeds": seeds, "counts": [experiment["replay_count"]]}


def click_rates(config: Mapping, name: str) -> tuple[float, float]:
    """How often the right action and another are clicked."""
    right, wrong = config["experiments"][name].get("click_rates", (1, 0))
    return right, wrong


def translation(config: Mapping, name: str, dataset: str) -> tuple[float, float]:
    """The unit and the offset of an expected logged cost, unit · loss − offset."""
    right, wrong = click_rates(config, name)
    return (right - wrong, right) if is_single(config, dataset) else (1, n_labels(config, dataset))


def log_in_words(config: Mapping, name: str, datasets: Sequence[str]) -> str:
    """What is unusual about the log, or nothing: sharper or softer scores of π0, clicks where an action is one of K."""
    sharpness, (right, wrong) = config["experiments"][name].get("logging_sharpness", 1), click_rates(config, name)
    clicked = (right, wrong) != (1, 0) and any(is_single(config, each) for each in datasets)
    said = [f"π0's scores × {sharpness:g}"] * (sharpness != 1)
    said += [f"clicks with probability {right:g} for the right action, {wrong:g} for another"] * clicked
    return ", ".join(said)


def caption_words(config: Mapping, name: str, part: str, datasets: Sequence[str] = ()) -> dict[str, object]:
    """What a caption says of a part: data sets, selections, seeds, replay counts, what was held out and certified."""
    experiment = config["experiments"][name]
    datasets = datasets or experiment["datasets"]
    names, runs = looks(config, name, datasets), runs_shown(experiment, part, datasets)
    seeds = runs["seeds"] if isinstance(runs["seeds"], Mapping) else dict.fromkeys(datasets, runs["seeds"])
    return {
        "data": ", ".join(map(names.dataset, datasets)),
        "actions": {kind: ", ".join(map(names.dataset, of)) for kind, of in names.by_actions(datasets).items()},
        "loss": names.word("loss", datasets),
        "supervised": names.word("supervised", datasets),
        "log": log_in_words(config, name, datasets),
        "seeds": names.seeds(seeds),
        "counts": runs["counts"],
        "selection": [SCORES[each] for each in experiment["selection"]],
        "held_out": experiment["split_unit"],
        "certified": "the doubly robust estimate" if uses_cost_model(config, name) else "SNIPS",
    }


def fetch_options(config: Mapping, dataset: str) -> list[str]:
    """What fetch is told: where a data set comes from, but the mirror, and what it must contain."""
    given = config["datasets"][dataset]
    labels = {"labels" if isinstance(given["labels"], int) else "keep-labels": given["labels"]}
    known = {key: given.get(key) for key in ("embedded", "train", "test", "features")} | labels
    known |= {"actions": "single"} if is_single(config, dataset) else {}
    known |= {key: given.get(key) for key in ("url", "rows", "scale")}
    digests = [f"{name}={digest}" for name, digest in given["sha256"].items()]
    return [*_flags({**known, "sha256": digests}), *["--drop-repeats"] * given["drop_repeats"]]


def heldout_options(experiment: Mapping) -> list[str]:
    """What replay is told of what it holds out: a share of its rows, or the contexts that the split has drawn."""
    unit = experiment["split_unit"]
    return _flags({"split-unit": unit, "heldout-fraction": experiment["heldout_fraction"] if unit == "row" else None})


def is_classifier(config: Mapping, algorithm: str) -> bool:
    """Whether an algorithm is a classifier, in place of an estimator."""
    return "classifier" in config["algorithms"].get(algorithm, {})


def classifier_options(config: Mapping, algorithm: str) -> list[str]:
    """What classify is told: the classifier, and by what else than their costs its rows are weighted."""
    return _flags({key: config["algorithms"][algorithm].get(key) for key in ("classifier", "weights")})


def fit_options(config: Mapping, name: str, algorithm: str) -> list[str]:
    """What fit is told: the estimator, its hyper-parameter and grid, its other parameters; for POEM its grid's unit."""
    given, experiment = config["algorithms"][algorithm], config["experiments"][name]
    calibrated = find_estimator(given["estimator"]).calibrated
    return _flags(
        {
            **{key: given.get(key) for key in ("estimator", "parameter", "grid")},
            "options": json.dumps(given["options"]) if given["options"] else None,
            "variance-penalty-scale": experiment["variance_penalty_scale"] if calibrated else None,
            "stopping": experiment["stopping"],
        }
    )


def learned_options(config: Mapping, files: Mapping[str, str]) -> list[str]:
    """What evaluate is told of the files of a run's algorithms: its fits, and its classifiers."""
    kinds = {"fit": [], "classifier": []}
    for name, file in files.items():
        kinds["classifier" if is_classifier(config, name) else "fit"].append(f"{name}={file}")
    return _flags(kinds)


def _flags(options: Mapping[str, object]) -> list[str]:
    """The words of a command line: options with a value or a list of them; None and an empty list are left out."""
    words = []
    for name, value in options.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [f"--{name}", *map(str, values)] if values else []
    return words


def study_options(config: Mapping, study: str) -> dict[str, object]:
    """What a study is told: its options but its runs and files, with the entries of its algorithms but their looks."""
    options = {key: value for key, value in config["studies"][study].items() if key not in ("runs", "files")}
    entries = {name: config["algorithms"][name] for name in options.get("algorithms", [])}
    plain = {name: {key: each[key] for key in each if key not in LOOKS} for name, each in entries.items()}
    return options | ({"algorithms": plain} if plain else {})


def study_files(config: Mapping, study: str) -> Mapping[str, str]:
    """The digests of the files that a study reads, by their names in the mirror's folder of its name."""
    return config["studies"][study].get("files", {})


def study_runs(config: Mapping, study: str) -> list[tuple[str, str, int, int]]:
    """The runs of a study: experiment, data set, replay count and seed."""
    return [
        (name, dataset, config["experiments"][name]["replay_count"], seed)
        for name, datasets in config["studies"][study].get("runs", {}).items()
        for dataset, seeds in datasets.items()
        for seed in range(seeds)
    ]


def made_with(config: Mapping, name: str) -> dict[str, Mapping]:
    """What an experiment, the theory or studies/NAME is made with: options, data sets, algorithms; not the mirror.

    A study is made with the experiments of its ``runs`` too.
    """
    kind, _, study = name.partition("/")
    if study:
        runs = {each: made_with(config, each) for each in config["studies"][study].get("runs", {})}
        algorithms = study_options(config, study).get("algorithms", {})
        return {"experiment": config["studies"][study], "datasets": {}, "algorithms": algorithms, "runs": runs}
    experiment = config["theory"] if kind == "theory" else config["experiments"][kind]
    used = {
        "datasets": all_datasets(experiment),
        "algorithms": [] if kind == "theory" else all_algorithms(config, kind),
    }
    return {"experiment": experiment, **{part: {each: config[part][each] for each in used[part]} for part in used}}


def digest(settings: Mapping) -> str:
    """The SHA-256 of what an experiment is made with."""
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def made_otherwise(provenance: str | Path, settings: Mapping) -> str:
    """What differs, in words, between settings and those that a file of provenance has; nothing without such a file."""
    try:
        known = json.loads(Path(provenance).read_text(encoding="utf-8"))
        options, recorded = known["options"], known["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if recorded == digest(settings):
        return ""
    now = settings["experiment"]
    return ", ".join(sorted(key for key in {*options, *now} if options.get(key) != now.get(key))) or (
        "settings of its data sets or algorithms"
    )
