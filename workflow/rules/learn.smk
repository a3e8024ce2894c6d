"""Learning from a log: the cost model, fits along each algorithm's grid, classifiers, and their losses."""


rule cost_model:
    input:
        log=f"{LOG}/log.npz",
    output:
        model=f"{LOG}/cost_model.npz",
    log:
        f"{LOG}/logs/cost_model.log",
    benchmark:
        f"{LOG}/benchmarks/cost_model.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("cost_model"),
        files=job_files,
        settings=settings(),
    message:
        "cost model on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        shell_command("cost_model")


rule fit:
    input:
        own_classes,
        unpack(inputs_of_fit),
        log=f"{LOG}/log.npz",
    output:
        fits=f"{LOG}/{{algorithm}}.npz",
    log:
        f"{LOG}/logs/{{algorithm}}.log",
    benchmark:
        f"{LOG}/benchmarks/{{algorithm}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("fit"),
        files=job_files,
        settings=lambda wildcards: json.dumps(fit_parameters(config, wildcards.experiment, wildcards.algorithm)),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        shell_command("fit")


rule classify:
    input:
        own_classes,
        log=f"{LOG}/log.npz",
        logging=f"{RUN}/logging.npz",
        test="resources/{dataset}/test.npz",
    output:
        probabilities=f"{LOG}/{{classifier}}.npz",
    log:
        f"{LOG}/logs/{{classifier}}.log",
    benchmark:
        f"{LOG}/benchmarks/{{classifier}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("classify"),
        files=job_files,
        settings=settings(**AXES, **CLASSIFIER),
    message:
        "{wildcards.classifier} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        shell_command("classify")


rule evaluate:
    input:
        unpack(inputs_of_evaluate),
    output:
        metrics=f"{LOG}/metrics.csv",
        grids=f"{LOG}/grids.csv",
    log:
        f"{LOG}/logs/evaluate.log",
    benchmark:
        f"{LOG}/benchmarks/evaluate.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("evaluate"),
        files=job_files,
        settings=settings("selection", "absent_label_score", "click_rates", "test_shift", **AXES, **REPLAY_COUNT),
    message:
        "evaluate on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        shell_command("evaluate")
