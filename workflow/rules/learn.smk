"""Rules of a run after its log exists: the cost model, fits along each algorithm's grid, classifiers, and losses.

An unnamed input, the files of a user's classes, and ``params.code`` only make Snakemake run a step again.
"""


def cost_model_of(wildcards):
    """Return the cost model of a log if the experiment uses one."""
    return f"{LOG}/cost_model.npz".format(**wildcards) if runs.uses_cost_model(config, wildcards.experiment) else []


def learned(wildcards, are_classifiers):
    """Return the fits or the classifiers of a run."""
    axes = wildcards.experiment, wildcards.dataset, int(wildcards.replay_count), int(wildcards.seed)
    names = [a for a in runs.run_algorithms(config, *axes) if runs.is_classifier(config, a) == are_classifiers]
    return [f"{LOG}/{name}.npz".format(**wildcards) for name in names]


rule cost_model:
    input:
        log=f"{LOG}/log.npz",
    output:
        model=f"{LOG}/cost_model.npz",
    log:
        f"{LOG}/logs/cost_model.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
    message:
        "cost model on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learn.cost_model" " --log={input.log} --model={output.model} 2> {log}"


rule fit:
    input:
        lambda w: user_files(runs.module_files(runs.algorithm_entry(config, w))),
        log=f"{LOG}/log.npz",
        logging=shared("logging"),
        cost_model=cost_model_of,
    output:
        fits=f"{LOG}/{{algorithm}}.npz",
    log:
        f"{LOG}/logs/{{algorithm}}.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=settings("stopping", has_algorithm=True),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learn.fit"
        " --log={input.log} --logging={input.logging} --cost_model={input.cost_model} --fits={output.fits}"
        " --settings={params.settings:q} 2> {log}"


rule classify:
    input:
        lambda w: user_files(runs.module_files(runs.algorithm_entry(config, w))),
        log=f"{LOG}/log.npz",
        logging=shared("logging"),
        test="resources/{dataset}/test.npz",
    output:
        probabilities=f"{LOG}/{{classifier}}.npz",
    log:
        f"{LOG}/logs/{{classifier}}.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=settings(has_algorithm=True),
    message:
        "{wildcards.classifier} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learn.classify"
        " --log={input.log} --logging={input.logging} --test={input.test}"
        " --probabilities={output.probabilities} --settings={params.settings:q} 2> {log}"


rule evaluate:
    input:
        test="resources/{dataset}/test.npz",
        log=f"{LOG}/log.npz",
        logging=shared("logging"),
        skyline=shared("skyline"),
        cost_model=cost_model_of,
        fits=lambda w: learned(w, are_classifiers=False),
        classifiers=lambda w: learned(w, are_classifiers=True),
    output:
        metrics=f"{LOG}/metrics.csv",
        grids=f"{LOG}/grids.csv",
    log:
        f"{LOG}/logs/evaluate.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=settings("selection", "absent_label_score", "click_rates", "test_shift"),
    message:
        "evaluate on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learn.evaluate"
        " --test={input.test} --log={input.log} --logging={input.logging} --skyline={input.skyline}"
        " --cost_model={input.cost_model} --fits {input.fits} --classifiers {input.classifiers}"
        " --metrics={output.metrics} --grids={output.grids} --settings={params.settings:q} 2> {log}"
