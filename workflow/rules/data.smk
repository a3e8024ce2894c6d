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
    params:
        source=lambda wildcards: lookups.fetch_options(config, wildcards.dataset),
        mirror=mirror,
        local=local_digests,
        raw=lambda wildcards, output: Path(output.train).with_name("raw"),
        origin=lambda wildcards, output: Path(output.train).with_name("origin.json"),
    message:
        "fetch {wildcards.dataset}"
    shell:
        "drcrm fetch {params.source:q} {params.mirror:q} --raw {params.raw} --origin {params.origin}"
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
    resources:
        **asked("split"),
    params:
        unit=option("split_unit"),
        logging=option("logging_fraction"),
        heldout=option("heldout_fraction"),
    message:
        "split {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "drcrm split --train {input.train} --split-unit {params.unit} --logging-fraction {params.logging}"
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
    resources:
        **asked("log_crf"),
    params:
        c=option("logging_c"),
        sharpness=option("logging_sharpness"),
    message:
        "logging policy on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "drcrm log_crf --train {input.train} --split {input.split} --logging-c {params.c}"
        " --logging-sharpness {params.sharpness} --output {output} 2> {log}"


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
    resources:
        **asked("skyline"),
    message:
        "skyline on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "drcrm skyline --train {input.train} --split {input.split} --output {output} 2> {log}"


rule replay:
    input:
        code("replay"),
        train="resources/{dataset}/train.npz",
        split=f"{RUN}/split.npz",
        policy=f"{RUN}/logging.npz",
    output:
        f"{LOG}/log.npz",
    log:
        f"{LOG}/logs/replay.log",
    benchmark:
        f"{LOG}/benchmarks/replay.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("replay"),
    params:
        held_out=lambda wildcards: lookups.heldout_options(config["experiments"][wildcards.experiment]),
        clicks=option("click_rates"),
    message:
        "replay {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "drcrm replay --train {input.train} --split {input.split} --policy {input.policy}"
        " --replay-count {wildcards.replays} {params.held_out} --click-rates {params.clicks}"
        " --dataset {wildcards.dataset} --seed {wildcards.seed} --output {output} 2> {log}"
