"""The tables and figures of an experiment, and what they come from."""


rule collect:
    input:
        code=code("collect"),
        runs=lambda wildcards: [
            f"{RUN}/replay{{replays}}/{wildcards.table}.csv".format(
                experiment=wildcards.experiment, dataset=d, replays=r, seed=s
            )
            for d, r, s in runs(wildcards.experiment)
        ],
    output:
        "results/{experiment}/{table}.csv",
    log:
        "results/{experiment}/logs/{table}.log",
    benchmark:
        "results/{experiment}/benchmarks/{table}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(80)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm_anew,
    message:
        "{wildcards.table} of {wildcards.experiment}"
    shell:
        "{params.drcrm} collect {input.runs} --output {output} 2> {log}"


rule provenance:
    input:
        code("provenance"),
        "results/{experiment}/metrics.csv",
    output:
        "results/{experiment}/provenance.json",
    log:
        "results/{experiment}/logs/provenance.log",
    benchmark:
        "results/{experiment}/benchmarks/provenance.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(80)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm,
        project=lambda wildcards, output: str(PROJECT),
        settings=settings,
    message:
        "provenance of {wildcards.experiment}"
    shell:
        "{params.drcrm} provenance --project {params.project:q} --config {params.settings:q} --output {output} 2> {log}"


rule tables:
    input:
        code("tables"),
        known=[local_path(SOURCE / f"drcrm/report/data/{name}.csv") for name in ("paper_tables", "reference_code")],
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
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(150)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm_anew,
        folder=lambda wildcards, output: Path(output[0]).parent,
        datasets=option("datasets"),
        algorithms=option("algorithms"),
        selection=option("selection"),
        seeds=option("seeds"),
        replay_count=option("replay_count"),
        grids=grids,
        papers=papers,
        names=names,
        protocol=protocol,
        named=named,
    message:
        "tables of {wildcards.experiment}"
    shell:
        "{params.drcrm} tables --metrics {input.metrics} --datasets {params.datasets} --selection {params.selection}"
        " --algorithms {params.algorithms} --seeds {params.seeds} --replay-count {params.replay_count} --grids {params.grids:q} --papers {params.papers:q}"
        " --names {params.names:q} {params.protocol}"
        " --output {params.folder} --pages {output.pages} 2> {log}"


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
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(200)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm_anew,
        datasets=option("datasets"),
        algorithms=option("algorithms"),
        selection=lambda wildcards: config["experiments"][wildcards.experiment]["selection"][0],
        seeds=option("seeds"),
        replay_count=option("replay_count"),
        named=named,
        names=names,
        pictures=lambda wildcards, output: [path for path in output if not path.endswith(".rst")],
    message:
        "overview of {wildcards.experiment}"
    shell:
        "{params.drcrm} overview --metrics {input.metrics} --datasets {params.datasets} --selection {params.selection}"
        " --algorithms {params.algorithms} --seeds {params.seeds} --replay-count {params.replay_count} --names {params.names:q}"
        " --title {wildcards.experiment} --output {params.pictures} --output-summary {output.summary} 2> {log}"


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
                "data": dataset_label(wildcards.dataset),
            },
        ),
    log:
        "results/{experiment}/logs/{figure}_{dataset}.log",
    benchmark:
        "results/{experiment}/benchmarks/{figure}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(interpreter(200)),
        runtime=asked_minutes(moments),
    params:
        drcrm=drcrm_anew,
        selection=option("selection"),
        shown=shown,
        named=named,
        names=names,
        labels=n_labels,
        algorithms=lambda wildcards: lookups.shown_algorithms(config, wildcards.experiment, wildcards.figure),
        held_out=option("split_unit"),
    message:
        "{wildcards.figure} figure of {wildcards.experiment} on {wildcards.dataset}"
    shell:
        "{params.drcrm} figures {wildcards.figure} --metrics {input.metrics} --grids {input.grids}"
        " --dataset {wildcards.dataset} --labels {params.labels} --selection {params.selection}"
        " --seeds {params.shown[seeds]} --replay-counts {params.shown[counts]}"
        " --algorithms {params.algorithms} --split-unit {params.held_out}"
        " --names {params.names:q} --output {output} 2> {log}"
