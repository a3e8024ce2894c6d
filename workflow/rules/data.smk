"""Data sets, and what is drawn from them: the split, π0 and the skyline, the replayed log."""


rule fetch:
    input:
        code("fetch"),
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
    threads: 1
    params:
        drcrm=drcrm,
        source=source,
        content=content,
        raw=lambda wildcards, output: Path(output.train).with_name("raw"),
        origin=lambda wildcards, output: Path(output.train).with_name("origin.json"),
    message:
        "fetch {wildcards.dataset}"
    shell:
        "{params.drcrm} fetch {params.source} --raw {params.raw} --origin {params.origin}"
        " --output-train {output.train} --output-test {output.test} 2> {log}"


rule split:
    input:
        code("split"),
        train="resources/{dataset}/train.npz",
    output:
        f"{RUN}/split.npz",
    log:
        f"{RUN}/logs/split.log",
    benchmark:
        f"{RUN}/benchmarks/split.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(split_megabytes),
        runtime=asked_minutes(moment),
    params:
        drcrm=drcrm,
        unit=option("split_unit"),
        logging=option("logging_fraction"),
        heldout=option("heldout_fraction"),
    message:
        "split {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{params.drcrm} split --train {input.train} --split-unit {params.unit} --logging-fraction {params.logging}"
        " --heldout-fraction {params.heldout} --dataset {wildcards.dataset} --seed {wildcards.seed}"
        " --output {output} 2> {log}"


rule log_crf:
    input:
        code("log_crf"),
        train="resources/{dataset}/train.npz",
        split=f"{RUN}/split.npz",
    output:
        f"{RUN}/logging.npz",
    log:
        f"{RUN}/logs/log_crf.log",
    benchmark:
        f"{RUN}/benchmarks/log_crf.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(log_crf_megabytes),
        runtime=asked_minutes(moment),
    params:
        drcrm=drcrm,
        c=option("logging_c"),
    message:
        "logging policy on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{params.drcrm} log_crf --train {input.train} --split {input.split} --logging-c {params.c}"
        " --output {output} 2> {log}"


rule skyline:
    input:
        code("skyline"),
        train="resources/{dataset}/train.npz",
        split=f"{RUN}/split.npz",
    output:
        f"{RUN}/skyline.npz",
    log:
        f"{RUN}/logs/skyline.log",
    benchmark:
        f"{RUN}/benchmarks/skyline.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(skyline_megabytes),
        runtime=asked_minutes(skyline_seconds),
    params:
        drcrm=drcrm,
    message:
        "skyline on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{params.drcrm} skyline --train {input.train} --split {input.split} --output {output} 2> {log}"


rule replay:
    input:
        code("replay"),
        train="resources/{dataset}/train.npz",
        split=f"{RUN}/split.npz",
        policy=f"{RUN}/logging.npz",
    output:
        f"{RUN}/replay{{replays}}/log.npz",
    log:
        f"{RUN}/replay{{replays}}/logs/replay.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/replay.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(replay_megabytes),
        runtime=asked_minutes(moment),
    params:
        drcrm=drcrm,
        unit=held_out,
    message:
        "replay {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "{params.drcrm} replay --train {input.train} --split {input.split} --policy {input.policy}"
        " --replay-count {wildcards.replays} --split-unit {params.unit}"
        " --dataset {wildcards.dataset} --seed {wildcards.seed} --output {output} 2> {log}"
