"""Fits along each algorithm's grid, and the losses of what they choose."""


def learner(wildcards):
    """The options of fit: the estimator, its hyper-parameter and grid, its other parameters."""
    algorithm = config["algorithms"][wildcards.algorithm]
    options = " ".join(f"{name}={value}" for name, value in algorithm["options"].items())
    parts = [
        f"--estimator {algorithm['estimator']}",
        f"--parameter {algorithm['parameter']}" if "parameter" in algorithm else "",
        f"--grid {' '.join(map(str, algorithm['grid']))}" if "grid" in algorithm else "",
        f"--option {options}" if options else "",
    ]
    return " ".join(filter(None, parts))


def fit_megabytes(wildcards, input):
    """Memory of a fit: the log, L-BFGS's 50 pairs of vectors, and the coefficients of the whole grid."""
    dataset = config["datasets"][wildcards.dataset]
    labels = dataset["labels"] if isinstance(dataset["labels"], int) else len(dataset["labels"])
    coefficients = 8e-6 * (dataset["features"] + 1) * labels
    grid = len(config["algorithms"][wildcards.algorithm].get("grid", [0]))
    return int(megabytes(wildcards, input) + (2 * 50 + 10 + 2 * grid) * coefficients)


rule fit:
    input:
        code("fit"),
        log=f"{RUN}/replay{{replays}}/log.npz",
    output:
        f"{RUN}/replay{{replays}}/{{algorithm}}.npz",
    log:
        f"{RUN}/replay{{replays}}/logs/{{algorithm}}.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/{{algorithm}}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=fit_megabytes,
        runtime=lambda wildcards: 240 if config["datasets"][wildcards.dataset]["features"] > 10000 else 60,
    params:
        learner=learner,
        scale=of("variance_penalty_scale"),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replayed {wildcards.replays} times"
    shell:
        "python -m drcrm fit --log {input.log} {params.learner} --variance-penalty-scale {params.scale}"
        " --output {output} 2> {log}"


def fits(wildcards):
    """The fits of one run, all algorithms."""
    algorithms = config["experiments"][wildcards.experiment]["algorithms"]
    return {name: f"{RUN}/replay{{replays}}/{name}.npz".format(**wildcards) for name in algorithms}


rule evaluate:
    input:
        unpack(fits),
        code=code("evaluate"),
        test="resources/{dataset}/test.npz",
        logging=f"{RUN}/logging.npz",
        skyline=f"{RUN}/skyline.npz",
    output:
        f"{RUN}/replay{{replays}}/metrics.csv",
    log:
        f"{RUN}/replay{{replays}}/logs/evaluate.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/evaluate.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=megabytes,
        runtime=20,
    params:
        fits=lambda wildcards: " ".join(f"{name}={path}" for name, path in fits(wildcards).items()),
        selection=of("selection"),
        absent=of("absent_label_score"),
    message:
        "evaluate on {wildcards.dataset}, seed {wildcards.seed}, replayed {wildcards.replays} times"
    shell:
        "python -m drcrm evaluate --test {input.test} --logging {input.logging} --skyline {input.skyline}"
        " --fit {params.fits} --selection {params.selection} --absent-label-score {params.absent}"
        " --replay-count {wildcards.replays} --dataset {wildcards.dataset} --seed {wildcards.seed}"
        " --output {output} 2> {log}"
