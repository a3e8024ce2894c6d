"""Data sets and their logs: the split, π0, the skyline and the replayed log."""


rule fetch:
    output:
        train="resources/{dataset}/train.npz",
        test="resources/{dataset}/test.npz",
    log:
        "resources/{dataset}/fetch.log",
    benchmark:
        "resources/{dataset}/fetch.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code("fetch"),
        files=mirror_files,
        settings=fetch_settings,
    message:
        "fetch {wildcards.dataset}"
    shell:
        shell_command("fetch")


rule split:
    input:
        train="resources/{dataset}/train.npz",
    output:
        split=f"{RUN}/split.npz",
    log:
        f"{RUN}/logs/split.log",
    benchmark:
        f"{RUN}/benchmarks/split.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("split"),
        files=job_files,
        settings=settings("split_unit", "logging_fraction", "heldout_fraction", **AXES),
    message:
        "split {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        shell_command("split")


rule log_crf:
    input:
        **CONTEXTS,
    output:
        policy=f"{RUN}/logging.npz",
    log:
        f"{RUN}/logs/log_crf.log",
    benchmark:
        f"{RUN}/benchmarks/log_crf.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("log_crf"),
        files=job_files,
        settings=settings("logging_c", "logging_sharpness"),
    message:
        "logging policy on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        shell_command("log_crf")


rule skyline:
    input:
        **CONTEXTS,
    output:
        policy=f"{RUN}/skyline.npz",
    log:
        f"{RUN}/logs/skyline.log",
    benchmark:
        f"{RUN}/benchmarks/skyline.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("skyline"),
        files=job_files,
        settings=settings(),
    message:
        "skyline on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        shell_command("skyline")


rule replay:
    input:
        **CONTEXTS,
        policy=f"{RUN}/logging.npz",
    output:
        log=f"{LOG}/log.npz",
    log:
        f"{LOG}/logs/replay.log",
    benchmark:
        f"{LOG}/benchmarks/replay.tsv"
    conda:
        "../../environment.yml"
    resources:
        **DATA_RESOURCES,
    params:
        code=code("replay"),
        files=job_files,
        settings=settings("split_unit", "heldout_fraction", "click_rates", **AXES, **REPLAY_COUNT),
    message:
        "replay {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        shell_command("replay")
