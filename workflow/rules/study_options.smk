"""What rules pass to the studies, and what these read, from the config."""

STUDIES = os.path.relpath(PROJECT / "studies")
STUDIES_READING_FITS = ("choices", "pessimism")


def study_code(wildcards):
    """The source files that a study runs."""
    scripts = [PROJECT / "studies" / f"{name}.py" for name in ("__main__", wildcards.study)]
    return [local_path(path) for path in script_files(*scripts, package=SOURCE / "drcrm")]


def study_algorithms(wildcards):
    """The algorithms of a study, without what they look like."""
    names = config["studies"][wildcards.study].get("algorithms", [])
    keys = ("estimator", "parameter", "grid", "options")
    return {
        name: {key: config["algorithms"][name][key] for key in keys if key in config["algorithms"][name]}
        for name in names
    }


def study_options(wildcards):
    """What a study is told, as JSON."""
    options = {key: value for key, value in config["studies"][wildcards.study].items() if key != "runs"}
    algorithms = study_algorithms(wildcards)
    return json.dumps(options | ({"algorithms": algorithms} if algorithms else {}))


def study_fits(wildcards):
    """The fits of a run that a study reads."""
    names = study_algorithms(wildcards) if wildcards.study in STUDIES_READING_FITS else []
    return [f"{RUN}/replay{{replays}}/{name}.npz".format(**wildcards) for name in names]


def study_rows(wildcards):
    """The rows of the runs of a study."""
    return [
        f"results/studies/{wildcards.study}/{experiment}/{dataset}/seed{seed}/"
        f"replay{config['experiments'][experiment]['replay_count']}.csv"
        for experiment, datasets in config["studies"][wildcards.study].get("runs", {}).items()
        for dataset, seeds in datasets.items()
        for seed in range(seeds)
    ]


def study_given(wildcards, input):
    """What the table of a study is made of: the rows of runs, or its options."""
    of_runs = "runs" in config["studies"][wildcards.study]
    return ["--rows", *input.rows] if of_runs else ["--options", study_options(wildcards)]


def study_settings(wildcards):
    """The options of a study with what it measures, as provenance wants them."""
    study = config["studies"][wildcards.study]
    experiments = {name: lookups.made_with(config, name) for name in study.get("runs", {})}
    settings = {"experiment": study, "datasets": {}, "algorithms": study_algorithms(wildcards), "runs": experiments}
    return json.dumps(settings, sort_keys=True)
