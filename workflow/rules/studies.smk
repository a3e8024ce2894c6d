"""What is measured beside the experiments, by the scripts in studies/: on finished runs, and on samples."""

STUDIES = os.path.relpath(PROJECT / "studies")
STUDIES_READING_FITS = ("choices", "pessimism")


def study_code(wildcards):
    """The source files that a study runs."""
    scripts = [PROJECT / "studies" / f"{name}.py" for name in ("__main__", wildcards.study)]
    return [local_path(path) for path in script_files(*scripts, package=SOURCE / "drcrm")]


def study_command(wildcards, output):
    """The command of a study, as ``drcrm`` is that of a step."""
    return f"{drcrm(wildcards, output).removesuffix('-m drcrm')}{quote(STUDIES)} {wildcards.study}"


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
    return f"--rows {input.rows}" if of_runs else f"--options {quote(study_options(wildcards))}"


def study_settings(wildcards):
    """The options of a study with what it measures, as provenance wants them."""
    study = config["studies"][wildcards.study]
    experiments = {name: lookups.settings(config, name) for name in study.get("runs", {})}
    settings = {"experiment": study, "datasets": {}, "algorithms": study_algorithms(wildcards), "runs": experiments}
    return json.dumps(settings, sort_keys=True)


for study in config["studies"]:

    rule:
        name:
            f"{study}_study"
        input:
            f"results/studies/{study}.csv",
            f"results/studies/{study}_provenance.json",


rule studies:
    input:
        expand("results/studies/{study}{end}", study=config["studies"], end=[".csv", "_provenance.json"]),


rule study_run:
    input:
        study_code,
        study_fits,
        log=f"{RUN}/replay{{replays}}/log.npz",
        cost_model=f"{RUN}/replay{{replays}}/cost_model.npz",
        policies=multiext(f"{RUN}/", "logging.npz", "skyline.npz"),
        contexts=multiext("resources/{dataset}/", "train.npz", "test.npz"),
    output:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.csv",
    log:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.log",
    benchmark:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 600 * attempt,
    params:
        study=study_command,
        run=lambda wildcards, input: os.path.dirname(input.log),
        resources=lambda wildcards, input: os.path.dirname(input.contexts[0]),
        options=study_options,
    message:
        "{wildcards.study} of {wildcards.experiment} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{params.study} --run {params.run} --resources {params.resources} --dataset {wildcards.dataset}"
        " --seed {wildcards.seed} --options {params.options:q} --output {output} 2> {log}"


rule study_table:
    input:
        study_code,
        rows=study_rows,
    output:
        table="results/studies/{study}.csv",
        summary="results/studies/{study}.txt",
    log:
        "results/studies/logs/{study}.log",
    benchmark:
        "results/studies/benchmarks/{study}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 600 * attempt,
    params:
        study=study_command,
        given=study_given,
    message:
        "table of {wildcards.study}"
    shell:
        "{params.study} {params.given} --output {output.table} > {output.summary} 2> {log}"


rule study_provenance:
    input:
        code("provenance"),
        "results/studies/{study}.csv",
    output:
        "results/studies/{study}_provenance.json",
    log:
        "results/studies/logs/{study}_provenance.log",
    benchmark:
        "results/studies/benchmarks/{study}_provenance.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(80)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm,
        project=lambda wildcards, output: str(PROJECT),
        settings=study_settings,
    message:
        "provenance of {wildcards.study}"
    shell:
        "{params.drcrm} provenance --project {params.project:q} --config {params.settings:q} --output {output} 2> {log}"
