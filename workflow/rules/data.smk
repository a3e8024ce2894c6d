"""Data sets and their logs: the split, π0, the skyline and the replayed log."""

CONTEXTS = {"train": "resources/{dataset}/train.npz", "split": shared("split")}
ORIGIN = str(workflow.modifier.modify_path("resources/{dataset}/origin.json"))  # with the prefix of a module


rule fetch:
    input:
        lambda w: user_files(local_files(config["datasets"][w.dataset])),
    output:
        train="resources/{dataset}/train.npz",
        test="resources/{dataset}/test.npz",
    log:
        "resources/{dataset}/fetch.log",
    localrule: True
    params:
        code=library_code,
        mirror=unchecked(config["mirror"] or ""),
        settings=lambda w: json.dumps(runs.fetch_parameters(config, w.dataset, ORIGIN.format(**w)), sort_keys=True),
    message:
        "fetch {wildcards.dataset}"
    shell:
        "python -P -m drcrm.paper.steps data.fetch"
        " --mirror={params.mirror:q} --train={output.train} --test={output.test}"
        " --settings={params.settings:q} 2> {log}"


rule split:
    input:
        train="resources/{dataset}/train.npz",
    output:
        split=f"{RUN}/split.npz",
    log:
        f"{RUN}/logs/split.log",
    params:
        code=library_code,
        settings=settings("split_unit", "logging_fraction", "heldout_fraction"),
    message:
        "split {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -P -m drcrm.paper.steps data.split"
        " --train={input.train} --split={output.split} --settings={params.settings:q} 2> {log}"


rule log_crf:
    input:
        lambda w: user_files(runs.module_files(config["experiments"][w.experiment]["logging"])),
        **CONTEXTS,
    output:
        policy=f"{RUN}/logging.npz",
    log:
        f"{RUN}/logs/log_crf.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=settings("logging", "logging_c", "logging_sharpness"),
    message:
        "logging policy on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -P -m drcrm.paper.steps data.log_crf"
        " --train={input.train} --split={input.split} --policy={output.policy}"
        " --settings={params.settings:q} 2> {log}"


rule skyline:
    input:
        **CONTEXTS,
    output:
        policy=f"{RUN}/skyline.npz",
    log:
        f"{RUN}/logs/skyline.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
    message:
        "skyline on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -P -m drcrm.paper.steps data.skyline"
        " --train={input.train} --split={input.split} --policy={output.policy} 2> {log}"


rule replay:
    input:
        **CONTEXTS,
        policy=shared("logging"),
    output:
        log=f"{LOG}/log.npz",
    log:
        f"{LOG}/logs/replay.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=settings("split_unit", "heldout_fraction", "click_rates"),
    message:
        "replay {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps data.replay"
        " --train={input.train} --split={input.split} --policy={input.policy} --log={output.log}"
        " --settings={params.settings:q} 2> {log}"
