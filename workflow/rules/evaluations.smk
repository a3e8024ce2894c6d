"""Experiments of the kind evaluation: estimates of policies' costs on simulated logs, in shards like a study."""

EVALUATION_LABELS = {
    "rmse": "1 Error against rows",
    "coverage": "2 Coverage against width",
    "distribution": "3 Distribution of squared errors",
}
EVALUATION_TITLES = {"relative": "Relative errors", "rmse": "Errors", "coverage": "Coverage"}


def entry_of(wildcards):
    """Return the options of an evaluation."""
    return config["evaluations"][wildcards.evaluation]


rule evaluation_shard:
    input:
        lambda wildcards: [f"resources/{name}/train.npz" for name in entry_of(wildcards).get("datasets", [])],
    output:
        "results/{evaluation}/shards/{shard}.csv",
    log:
        "results/{evaluation}/logs/shard{shard}.log",
    resources:
        **STUDY_RESOURCES,
    params:
        code=lambda wildcards: [
            *code_of_study(wildcards),
            *map(source_digest, runs.module_files(entry_of(wildcards))),
        ],
        arguments=lambda wildcards: arguments_of_repetitions(
            entry_of(wildcards), int(wildcards.shard), ["--resources", "resources"]
        ),
    message:
        "shard {wildcards.shard} of {wildcards.evaluation}"
    shell:
        f"python {shlex.quote(STUDIES)} evaluation {{params.arguments:q}} --output {{output}} 2> {{log}}"


rule evaluation_metrics:
    input:
        lambda wildcards: [
            f"results/{wildcards.evaluation}/shards/{shard}.csv" for shard in shards_of(entry_of(wildcards))
        ],
    output:
        "results/{evaluation}/metrics.csv",
    log:
        "results/{evaluation}/logs/metrics.log",
    params:
        code=code_of_study,
    message:
        "metrics of {wildcards.evaluation}"
    shell:
        f"python {shlex.quote(STUDIES)} evaluation --rows {{input}} --output {{output}} > {{log}} 2>&1"


rule evaluation_table:
    input:
        metrics="results/{evaluation}/metrics.csv",
    output:
        tables=expand("results/{{evaluation}}/tables/{{measure}}.{kind}", kind=TABLE_KINDS),
        page=report(
            "results/{evaluation}/pages/{measure}.html",
            caption="../report/evaluations.rst",
            category="2 Tables",
            labels=lambda w: {"table": EVALUATION_TITLES[w.measure]},
        ),
    log:
        "results/{evaluation}/logs/{measure}_table.log",
    params:
        code=pipeline_code,
        settings=lambda w: json.dumps({"title": w.evaluation}),
    message:
        "table {wildcards.measure} of {wildcards.evaluation}"
    shell:
        "python -P -m drcrm.paper.steps results.evaluation_tables --metrics={input.metrics}"
        " --tables {output.tables} {output.page} --settings={params.settings:q} 2> {log}"


rule evaluation_figure:
    input:
        metrics="results/{evaluation}/metrics.csv",
    output:
        figures=pictures(
            "results/{evaluation}/figures/{measure}_{simulator}",
            {
                "caption": "../report/evaluations.rst",
                "category": "3 Figures",
                "labels": lambda w: {"figure": EVALUATION_LABELS[w.measure], "data": w.simulator},
            },
        ),
    log:
        "results/{evaluation}/logs/{measure}_{simulator}.log",
    params:
        code=pipeline_code,
        settings=lambda w: json.dumps({"measure": w.measure, "simulator": w.simulator}),
    message:
        "{wildcards.measure} figure of {wildcards.evaluation}, {wildcards.simulator}"
    shell:
        "python -P -m drcrm.paper.steps results.evaluation_figure --metrics={input.metrics}"
        " --figures {output.figures} --settings={params.settings:q} 2> {log}"
