"""Rules of a run after its log exists: the cost model, fits along each algorithm's grid, classifiers, and losses.

A command calls the function of its name in ``src/drcrm/paper/steps/learn.py`` with its files and settings, in a
process with one thread. An option without a path is left out. Error messages go to the rule's log.

LOG                    folder of a run: results/EXPERIMENT/runs/DATASET/seedSEED/replayCOUNT
{LOG}/log.npz          training and held-out part of the simulated log; the rule replay writes it
shared("logging")      π0, from which the actions of the log were drawn; the rule log_crf writes it, also if it is no
                       CRF. A variant of an experiment uses the file of the original if they agree in the options of
                       split and π0.
settings("stopping")   JSON of the wildcards and of these options of the experiment. With has_algorithm, the algorithm's
                       entry in the configuration is added: estimator, parameter, grid, options, but not its label,
                       colour, marker and group. A start of the experiment replaces that of the options. If the
                       parameter is variance_penalty, the experiment's variance_penalty_scale is added.
library_code           digest of src/drcrm without logs and paper/reports, and without comments and docstrings
DATA_RESOURCES         memory and time, which grow with the inputs

Snakemake runs a step again if an input is newer, or if inputs, settings, command or digest change. The digest, and an
unnamed input (a user's file), have no other use. Jobs import src/drcrm of this folder. In names of files, {algorithm}
and {classifier} are only what workflow/Snakefile allows in wildcard_constraints.
"""


def files_of_classes(wildcards):
    """Return the user's files whose classes, ``module:Class``, the algorithm's entry names, such as a risk."""
    return user_files(runs.module_files(runs.algorithm_entry(config, wildcards)))


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
        files_of_classes,
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
        files_of_classes,
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
