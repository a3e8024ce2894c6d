"""The tables and figures of an experiment, and what they come from."""


rule collect:
    input:
        code=code("collect"),
        runs=lambda wildcards: [
            f"{LOG}/{wildcards.table}.csv".format(experiment=wildcards.experiment, dataset=d, replays=r, seed=s)
            for d, r, s in lookups.all_runs(config["experiments"][wildcards.experiment])
        ],
    output:
        "results/{experiment}/{table}.csv",
    log:
        "results/{experiment}/logs/{table}.log",
    benchmark:
        "results/{experiment}/benchmarks/{table}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("collect"),
    message:
        "{wildcards.table} of {wildcards.experiment}"
    shell:
        "drcrm collect {input.runs} --output {output} 2> {log}"


rule provenance:
    input:
        code("provenance"),
        tables_made,
    output:
        "results/{made}/provenance.json",
    log:
        "results/{made}/logs/provenance.log",
    benchmark:
        "results/{made}/benchmarks/provenance.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("provenance"),
    params:
        project=lambda wildcards, output: str(PROJECT),
        settings=made_with,
    message:
        "provenance of {wildcards.made}"
    shell:
        "drcrm provenance --project {params.project:q} --config {params.settings:q} --output {output} 2> {log}"


rule tables:
    input:
        code("tables"),
        known=[local_path(SOURCE / f"drcrm/reports/tables/data/{name}.csv") for name in ("paper_tables", "reference_code")],
        metrics="results/{experiment}/metrics.csv",
    output:
        expand("results/{{experiment}}/tables/{table}.{kind}", table=TABLES, kind=TABLE_KINDS),
        pages=report(
            directory("results/{experiment}/pages"),
            patterns=["{title}.html"],
            caption="../report/tables.rst",
            category="2 Tables",
            labels={"table": "{title}"},
        ),
    log:
        "results/{experiment}/logs/tables.log",
    benchmark:
        "results/{experiment}/benchmarks/tables.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("tables"),
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
        plan=plan("tables"),
        words=words("tables"),
    message:
        "tables of {wildcards.experiment}"
    shell:
        "drcrm tables --metrics {input.metrics} --plan {params.plan:q} --output {params.folder} --pages {output.pages} 2> {log}"


rule overview:
    input:
        code("overview"),
        metrics="results/{experiment}/metrics.csv",
    output:
        multiext("results/{experiment}/figures/overview", ".pdf", ".png"),
        report(
            "results/{experiment}/figures/overview.svg",
            caption="../report/overview.rst",
            category="1 Overview",
            labels={"figure": "From CIPS to full supervision"},
        ),
        summary="results/{experiment}/summary.rst",
    log:
        "results/{experiment}/logs/overview.log",
    benchmark:
        "results/{experiment}/benchmarks/overview.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("overview"),
    params:
        plan=plan("overview"),
        words=words("overview"),
        pictures=lambda wildcards, output: [path for path in output if not path.endswith(".rst")],
    message:
        "overview of {wildcards.experiment}"
    shell:
        "drcrm overview --metrics {input.metrics} --plan {params.plan:q}"
        " --output {params.pictures} --output-summary {output.summary} 2> {log}"


rule figure:
    input:
        code("figures"),
        metrics="results/{experiment}/metrics.csv",
        grids="results/{experiment}/grids.csv",
    output:
        multiext("results/{experiment}/figures/{figure}_{dataset}", ".pdf", ".png"),
        report(
            "results/{experiment}/figures/{figure}_{dataset}.svg",
            caption="../report/figures.rst",
            category="3 Figures",
            labels=lambda wildcards: {
                "figure": figure_title(wildcards.figure),
                "data": lookups.label(config, wildcards.dataset),
            },
        ),
    log:
        "results/{experiment}/logs/{figure}_{dataset}.log",
    benchmark:
        "results/{experiment}/benchmarks/{figure}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("figure"),
    params:
        plan=plan(),
        words=words(),
    message:
        "{wildcards.figure} figure of {wildcards.experiment} on {wildcards.dataset}"
    shell:
        "drcrm figures {wildcards.figure} --metrics {input.metrics} --grids {input.grids} --plan {params.plan:q}"
        " --output {output} 2> {log}"
