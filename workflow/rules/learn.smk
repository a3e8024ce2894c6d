"""Learning from a log: the cost model, fits along each algorithm's grid, classifiers, and their losses."""


def cost_model_of(wildcards):
    """Return the cost model of a log if the experiment uses one."""
    return f"{LOG}/cost_model.npz".format(**wildcards) if runs.uses_cost_model(config, wildcards.experiment) else []


def logging_policy_of(wildcards):
    """Return π0 if a fit starts from it or uses a cost model."""
    options = runs.options_of(config, config["experiments"][wildcards.experiment], wildcards.algorithm)
    is_start = options.get("start") == "logging"
    return shared("logging")(wildcards) if is_start or cost_model_of(wildcards) else []


def own_classes(wildcards):
    """Return the files in the working folder of the classes that an algorithm or a classifier names."""
    entry = config["algorithms"][wildcards.get("algorithm") or wildcards.classifier]
    return own_files(step_parameters.own_files(entry))


def learned(kind):
    """Return a function from the wildcards to the fits or the classifiers of a run."""
    return lambda wildcards: [f"{LOG}/{name}.npz".format(**wildcards) for name in runs.learned(config, wildcards)[kind]]


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
        "python -P -m drcrm.paper.steps learning.cost_model" " --log={input.log} --model={output.model} 2> {log}"


rule fit:
    input:
        own_classes,
        log=f"{LOG}/log.npz",
        logging=logging_policy_of,
        cost_model=cost_model_of,
    output:
        fits=f"{LOG}/{{algorithm}}.npz",
    log:
        f"{LOG}/logs/{{algorithm}}.log",
    resources:
        **DATA_RESOURCES,
    params:
        code=library_code,
        settings=lambda w: json.dumps(step_parameters.fit_parameters(config, w.experiment, w.algorithm)),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learning.fit"
        " --log={input.log} --logging={input.logging} --cost_model={input.cost_model} --fits={output.fits}"
        " --settings={params.settings:q} 2> {log}"


rule classify:
    input:
        own_classes,
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
        settings=lambda w: json.dumps(step_parameters.classifier_parameters(config, w)),
    message:
        "{wildcards.classifier} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replay_count}"
    shell:
        "python -P -m drcrm.paper.steps learning.classify"
        " --log={input.log} --logging={input.logging} --test={input.test}"
        " --probabilities={output.probabilities} --settings={params.settings:q} 2> {log}"


rule evaluate:
    input:
        test="resources/{dataset}/test.npz",
        log=f"{LOG}/log.npz",
        logging=shared("logging"),
        skyline=shared("skyline"),
        cost_model=cost_model_of,
        fits=learned("fits"),
        classifiers=learned("classifiers"),
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
        "python -P -m drcrm.paper.steps evaluate.evaluate"
        " --test={input.test} --log={input.log} --logging={input.logging} --skyline={input.skyline}"
        " --cost_model={input.cost_model} --fits {input.fits} --classifiers {input.classifiers}"
        " --metrics={output.metrics} --grids={output.grids} --settings={params.settings:q} 2> {log}"
