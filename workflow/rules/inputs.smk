"""Inputs, outputs and parameters of the rules."""

import shlex

CONTEXTS = {"train": "resources/{dataset}/train.npz", "split": f"{RUN}/split.npz"}


def fetch_settings(wildcards):
    """Return the entry of a data set as JSON, with the digests of its files in a local mirror.

    If a digest changes, Snakemake fetches the files again.
    """
    entry = config["datasets"][wildcards.dataset]
    source = Source(mirror=config["mirror"], sha256=entry["sha256"])
    record = read_record(ORIGIN.format(dataset=wildcards.dataset))
    digests = local_digests(source, [*entry.get("train", []), *entry.get("test", [])], record)
    return json.dumps({**fetch_parameters(config, wildcards.dataset), "digests": digests}, sort_keys=True)


CLASSIFIER = {
    "classifier": lambda wildcards: config["algorithms"][wildcards.classifier].get("classifier"),
    "competitor": lambda wildcards: config["algorithms"][wildcards.classifier].get("competitor"),
    "weights": lambda wildcards: config["algorithms"][wildcards.classifier].get("weights", "none"),
}


def cost_model_of(wildcards):
    """Return the cost model of a log if the experiment uses one."""
    is_used = uses_cost_model(config, wildcards.experiment)
    return {"cost_model": f"{LOG}/cost_model.npz".format(**wildcards)} if is_used else {}


def inputs_of_fit(wildcards):
    """Return the cost model if the experiment uses one, and π0 if the fit starts from it or uses a cost model."""
    start, model = config["algorithms"][wildcards.algorithm]["options"].get("start"), cost_model_of(wildcards)
    return ({"logging": f"{RUN}/logging.npz".format(**wildcards)} if start == "logging" or model else {}) | model


def own_classes(wildcards):
    """Return the files in the working folder of a user's risk, weight, classifier or competitor.

    A class is named ``module:Class``, or by a map from this name to parameters.
    """
    entry = config["algorithms"][wildcards.get("algorithm") or wildcards.classifier]
    names = [entry.get(kind) for kind in ("estimator", "classifier", "competitor")] + [entry["options"].get("weight")]
    paths = [str(next(iter(name)) if isinstance(name, dict) else name) for name in names if name]
    files = [Path(*path.split(":")[0].split(".")).with_suffix(".py") for path in paths if ":" in path]
    return [local_path(file) for file in files if file.exists()]


def inputs_of_evaluate(wildcards):
    """Return π0, the skyline, the log, the test contexts, the cost model if there is one, fits and classifiers."""
    algorithms = run_algorithms(
        config, wildcards.experiment, wildcards.dataset, int(wildcards.replays), int(wildcards.seed)
    )
    kinds = {"fits": [], "classifiers": []}
    for name in algorithms:
        kinds["classifiers" if is_classifier(config, name) else "fits"].append(f"{LOG}/{name}.npz")
    inputs = {"test": "resources/{dataset}/test.npz", "log": f"{LOG}/log.npz"}
    inputs |= {"logging": f"{RUN}/logging.npz", "skyline": f"{RUN}/skyline.npz"}
    lists = {kind: [path.format(**wildcards) for path in paths] for kind, paths in kinds.items()}
    return {name: path.format(**wildcards) for name, path in inputs.items()} | lists | cost_model_of(wildcards)


FIGURE_PAGE = {  # figures are numbered, because a report sorts their titles
    "caption": "../report/figures.rst",
    "category": "3 Figures",
    "labels": lambda wildcards: {
        "figure": f"{list(FIGURE_TITLES).index(wildcards.figure) + 1} {FIGURE_TITLES[wildcards.figure]}",
        "data": config["datasets"][wildcards.dataset]["label"],
    },
}
OVERVIEW_PAGE = {
    "caption": "../report/overview.rst",
    "category": "1 Overview",
    "labels": {"figure": "From CIPS to full supervision"},
}


RESULTS = {"metrics": "results/{experiment}/metrics.csv", "grids": "results/{experiment}/grids.csv"}


def pictures(path, page):
    """Return the files of a figure. The report shows the svg."""
    return [f"{path}.pdf", f"{path}.png", report(f"{path}.svg", **page)]


OVERVIEW_FILES = {
    "figures": pictures("results/{experiment}/figures/overview", OVERVIEW_PAGE),
    "summary": "results/{experiment}/summary.rst",
}


def table_pages(folder):
    """Return a folder of html pages as an output of the report."""
    labels = {"table": "{title}"}
    folder = directory(folder)
    return report(folder, patterns=["{title}.html"], caption="../report/tables.rst", category="2 Tables", labels=labels)


TABLE_FILES = {
    "tables": expand("results/{{experiment}}/tables/{table}.{kind}", table=TABLES, kind=TABLE_KINDS),
    "pages": table_pages("results/{experiment}/pages"),
}


def plan(part):
    """Return a function from the wildcards to the plan of the tables or of the overview, as JSON."""
    return lambda wildcards: report_plan(config, wildcards.experiment, part).json()


def figure_settings(wildcards):
    """Return the name and the plan of a figure as JSON."""
    plan = report_plan(config, wildcards.experiment, wildcards.figure, [wildcards.dataset])
    return json.dumps({"figure": wildcards.figure, "plan": json.loads(plan.json())})


def words(part=None):
    """Return a function from the wildcards to the words of a caption, by default of the job's figure."""

    def lookup(wildcards):
        datasets = [] if part else [wildcards.dataset]
        return caption_words(config, wildcards.experiment, part or wildcards.figure, datasets)

    return lookup


def runs_of(wildcards):
    """Return the tables of an experiment's runs."""
    runs = all_runs(config["experiments"][wildcards.experiment])
    table = f"{LOG}/{{table}}.csv"
    return [table.format(dataset=d, replays=r, seed=s, **wildcards) for d, r, s in runs]


def recorded_tables(wildcards):
    """Return the tables whose provenance a job records."""
    if wildcards.subject == "theory":
        datasets = config["theory"]["datasets"]
        return expand("results/theory/{lemma}_{dataset}.csv", lemma=LEMMAS, dataset=datasets)
    is_experiment = wildcards.subject in config["experiments"]
    return f"results/{wildcards.subject}/metrics.csv" if is_experiment else f"results/{wildcards.subject}.csv"


def project_files(wildcards, output):
    """Return the folder of the project and the output as JSON."""
    return json.dumps({"input": {"project": str(PROJECT)}, "output": named(output)})


def options_of_study(wildcards):
    """Return the options of a study as JSON."""
    return json.dumps(study_options(config, wildcards.study))


def rows_of_study(wildcards):
    """Return the tables of the runs of a study."""
    runs = study_runs(config, wildcards.study)
    return [f"results/studies/{wildcards.study}/{e}/{d}/seed{s}/replay{r}.csv" for e, d, r, s in runs]


def files_of_study(wildcards):
    """Return the files of the mirror, or the data sets, that a study reads."""
    study = config["studies"][wildcards.study]
    files = [f"resources/studies/{wildcards.study}/{name}" for name in study.get("files", {})]
    return files + [f"resources/{name}/train.npz" for name in study.get("datasets", [])]


def arguments_of_run(wildcards, input):
    """Return the arguments of a study's command for one run."""
    folders = ["--run", os.path.dirname(input.policy), "--resources", os.path.dirname(input.contexts[0])]
    axes = ["--dataset", wildcards.dataset, "--seed", wildcards.seed]
    return [*folders, *axes, "--options", options_of_study(wildcards)]


def arguments_of_table(wildcards, input):
    """Return the arguments of the command that writes a study's table.

    If the study has runs, these are the tables of the runs, else its options and the folder of its files or data sets.
    """
    if "runs" in config["studies"][wildcards.study]:
        return ["--rows", *input.rows]
    has_datasets = "datasets" in config["studies"][wildcards.study]
    resources = ["resources"] if has_datasets else [os.path.dirname(name) for name in input.files[:1]]
    folder = ["--resources", *resources] if resources else []
    return [*folder, "--options", options_of_study(wildcards)]


def file_settings(wildcards):
    """Return the folder in the mirror and the digest of a study's file as JSON."""
    study = config["studies"][wildcards.study]
    folder = study.get("folder", wildcards.study)
    return json.dumps({"folder": folder, "sha256": study["files"][wildcards.file]})


OWN_LOG = {
    "policy": "results/{log}/policy.npz",
    "answer": "results/{log}/answer.json",
    "page": "results/{log}/report.html",
    "text": "results/{log}/answer.txt",
}
LEARN_RESOURCES = {
    "mem_mb": lambda wildcards, input, attempt: attempt * (1000 + 30 * input.size_mb),
    "runtime": lambda wildcards, input, attempt: attempt * (15 + input.size_mb),
}
