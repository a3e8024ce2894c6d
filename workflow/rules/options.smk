"""What rules read, and tell the steps, beyond the wildcards of a job."""

STUDIES = os.path.relpath(PROJECT / "studies")
# In a module, under its prefix.
ORIGIN = str(workflow.modifier.modify_path("resources/{dataset}/origin.json"))


def mirror(wildcards, output):
    """Where fetch looks first. What asks for the output is not compared between runs: the mirror may change."""
    return ["--mirror", config["mirror"]] if config["mirror"] else []


def local_digests(wildcards):
    """What of a data set's content comes from a local mirror, by digest; the place of the mirror is not compared."""
    dataset = config["datasets"][wildcards.dataset]
    places = Source(mirror=config["mirror"], sha256=dataset["sha256"])
    record = read_record(ORIGIN.format(dataset=wildcards.dataset))
    return local_contents(places, [*dataset.get("train", []), *dataset.get("test", [])], record)


def own_code(wildcards):
    """The file of a risk of one's own, ``module:Class``, where it is in the working folder."""
    name, _, _ = config["algorithms"][wildcards.algorithm]["estimator"].partition(":")
    file = Path(*name.split(".")).with_suffix(".py")
    return [local_path(file)] if file.exists() else []


def known_cost_model(wildcards):
    """The cost model of a log, where the experiment has one."""
    used = lookups.uses_cost_model(config, wildcards.experiment)
    return {"cost_model": f"{LOG}/cost_model.npz".format(**wildcards)} if used else {}


def known_to_fit(wildcards):
    """What a fit reads beside its log: the cost model where the experiment has one, π0 beside it or as a start."""
    start, model = config["algorithms"][wildcards.algorithm]["options"].get("start"), known_cost_model(wildcards)
    policy = {"logging": f"{RUN}/logging.npz".format(**wildcards)} if start == "logging" or model else {}
    return policy | model


def learned(wildcards):
    """The fits and classifiers of one run."""
    run = wildcards.dataset, int(wildcards.replays), int(wildcards.seed)
    algorithms = lookups.run_algorithms(config, wildcards.experiment, *run)
    return {name: f"{LOG}/{name}.npz".format(**wildcards) for name in algorithms}


def shown(wildcards, part):
    """Which part of which experiment is shown, this or the figure of a job, of the data set of the job or of all."""
    datasets = [wildcards.dataset] if "dataset" in wildcards.keys() else []
    return config, wildcards.experiment, part or wildcards.figure, datasets


def plan(part=""):
    """The plan of the tables, the overview or a figure, as JSON."""
    return lambda wildcards: lookups.planned(*shown(wildcards, part)).json()


def words(part=""):
    """What the caption of the tables, the overview or a figure says of it."""
    return lambda wildcards: lookups.caption_words(*shown(wildcards, part))


def made_with(wildcards):
    """What provenance notes of an experiment, the theory or a study."""
    return json.dumps(lookups.made_with(config, wildcards.made), sort_keys=True)


def tables_made(wildcards):
    """The tables that provenance is of."""
    if wildcards.made != "theory":
        is_study = wildcards.made not in config["experiments"]
        return f"results/{wildcards.made}.csv" if is_study else f"results/{wildcards.made}/metrics.csv"
    lemmas = sorted({each.lemma for each in LEMMA_FIGURES.values()})
    return expand("results/theory/{lemma}_{dataset}.csv", lemma=lemmas, dataset=config["theory"]["datasets"])


def study_code(wildcards):
    """The source files that a study runs."""
    scripts = [PROJECT / "studies" / f"{name}.py" for name in ("__main__", wildcards.study)]
    return [local_path(path) for path in script_files(*scripts, package=SOURCE / "drcrm")]


def study_options(wildcards):
    """What a study is told, as JSON."""
    return json.dumps(lookups.study_options(config, wildcards.study))


def study_rows(wildcards):
    """The rows of the runs of a study."""
    runs = lookups.study_runs(config, wildcards.study)
    return [f"results/studies/{wildcards.study}/{e}/{d}/seed{s}/replay{r}.csv" for e, d, r, s in runs]


def study_files(wildcards):
    """The files of a mirror that a study reads."""
    return [f"resources/studies/{wildcards.study}/{name}" for name in lookups.study_files(config, wildcards.study)]


def study_given(wildcards, input):
    """What the table of a study is made of: the rows of runs, or its options, and the folder of its files."""
    if "runs" in config["studies"][wildcards.study]:
        return ["--rows", *input.rows]
    folder = ["--resources", os.path.dirname(input.files[0])] if input.files else []
    return [*folder, "--options", study_options(wildcards)]
