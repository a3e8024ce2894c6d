"""What rules pass to the steps, from the data sets and algorithms of the config."""


def source(wildcards):
    """The options of fetch: where a data set comes from, and what it must contain."""
    dataset = config["datasets"][wildcards.dataset]
    labels = dataset["labels"]
    options = {
        "embedded": [dataset["embedded"]] if "embedded" in dataset else [],
        "train": dataset.get("train", []),
        "test": dataset.get("test", []),
        "features": [dataset["features"]],
        "labels": [labels] if isinstance(labels, int) else [],
        "keep-labels": [] if isinstance(labels, int) else labels,
        "url": [dataset["url"]] if "url" in dataset else [],
        "rows": dataset.get("rows", []),
        "scale": [dataset["scale"]] if "scale" in dataset else [],
        "sha256": [f"{name}={digest}" for name, digest in dataset["sha256"].items()],
    }
    flags = [
        " ".join([f"--{name}", *(quote(str(value)) for value in values)]) for name, values in options.items() if values
    ]
    return " ".join([*flags, "--drop-repeats"] if dataset["drop_repeats"] else flags)


def content(wildcards):
    """What of a data set's content comes from a local mirror, by digest; the place of the mirror is not compared."""
    dataset = config["datasets"][wildcards.dataset]
    places = Source(mirror=config["mirror"], sha256=dataset["sha256"])
    record = read_record(ORIGIN.format(dataset=wildcards.dataset))
    return json.dumps(local_contents(places, [*dataset.get("train", []), *dataset.get("test", [])], record))


def n_labels(wildcards):
    """How many labels a data set has."""
    return lookups.n_labels(config, wildcards.dataset)


def held_out(wildcards):
    """What replay holds out: a share of its rows, or the contexts that the split has drawn."""
    experiment = config["experiments"][wildcards.experiment]
    by_row = experiment["split_unit"] == "row"
    return f"row --heldout-fraction {experiment['heldout_fraction']}" if by_row else "context"


def learner(wildcards):
    """The options of fit: the estimator, its hyper-parameter and grid, its other parameters; for POEM its grid's unit."""
    algorithm = config["algorithms"][wildcards.algorithm]
    experiment = config["experiments"][wildcards.experiment]
    scale = experiment["variance_penalty_scale"]
    parts = [
        f"--estimator {quote(algorithm['estimator'])}",
        f"--parameter {algorithm['parameter']}" if "parameter" in algorithm else "",
        f"--grid {' '.join(map(str, algorithm['grid']))}" if "grid" in algorithm else "",
        f"--options {quote(json.dumps(algorithm['options']))}" if algorithm["options"] else "",
        f"--variance-penalty-scale {scale}" if find_estimator(algorithm["estimator"]).calibrated else "",
        f"--stopping {experiment['stopping']}",
    ]
    return " ".join(filter(None, parts))


def own_code(wildcards):
    """The file of a risk of one's own, ``module:Class``, where it is in the working folder."""
    name, _, _ = config["algorithms"][wildcards.algorithm]["estimator"].partition(":")
    file = Path(*name.split(".")).with_suffix(".py")
    return [local_path(file)] if file.exists() else []


def known_to_fit(wildcards):
    """What a fit reads beside its log: π0 where it starts there, the cost model where the experiment has one."""
    run = RUN.format(**wildcards)
    found = {}
    if lookups.uses_logging_policy(config["algorithms"][wildcards.algorithm]):
        found["logging"] = f"{run}/logging.npz"
    return found | known_cost_model(wildcards)


def known_cost_model(wildcards):
    """The cost model of a log, where the experiment has one."""
    used = lookups.uses_cost_model(config, wildcards.experiment)
    return {"cost_model": f"{RUN}/replay{{replays}}/cost_model.npz".format(**wildcards)} if used else {}


def fits(wildcards):
    """The fits of one run."""
    run = wildcards.dataset, int(wildcards.replays), int(wildcards.seed)
    algorithms = lookups.run_algorithms(config, wildcards.experiment, *run)
    return {name: f"{RUN}/replay{{replays}}/{name}.npz".format(**wildcards) for name in algorithms}


def grids(wildcards):
    """The grids of an experiment's algorithms, as JSON."""
    return json.dumps(lookups.grids(config, wildcards.experiment))


def papers(wildcards):
    """The paper's data set that each of an experiment's stands for, and how it differs, as JSON."""
    return json.dumps(lookups.papers(config, wildcards.experiment))


def names(wildcards):
    """How an experiment's algorithms and data sets are named and drawn, as JSON."""
    return json.dumps(lookups.names(config, wildcards.experiment), ensure_ascii=False)


def shown(wildcards):
    """The seeds and replay counts of a figure: those of the replay-count curve, or of the tables."""
    return lookups.shown(config["experiments"][wildcards.experiment], wildcards.figure)


def figure_title(name):
    """The title of a figure in a report, which lists titles by the alphabet: with its number in our order."""
    return f"{list(FIGURE_TITLES).index(name) + 1} {FIGURE_TITLES[name]}"


def dataset_label(name):
    """What a data set is called in print."""
    return lookups.label(config, name)


def named(wildcards):
    """What the data sets and selections of a figure or of the tables are called in their caption."""
    experiment = config["experiments"][wildcards.experiment]
    datasets = [wildcards.dataset] if "dataset" in wildcards.keys() else experiment["datasets"]
    return lookups.named(config, wildcards.experiment, datasets)


def settings(wildcards):
    """An experiment with its data sets and algorithms, as provenance wants them."""
    return json.dumps(lookups.settings(config, wildcards.experiment), sort_keys=True)


def theory_settings():
    """The options of the theory with its data sets, as provenance wants them."""
    datasets = {name: config["datasets"][name] for name in config["theory"]["datasets"]}
    return json.dumps({"experiment": config["theory"], "datasets": datasets, "algorithms": {}}, sort_keys=True)


def protocol(wildcards):
    """What an experiment decides where the paper's text and the public code differ, as tables wants it."""
    options = lookups.protocol(config["experiments"][wildcards.experiment])
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
