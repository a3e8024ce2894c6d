"""The tables and figures of an experiment."""


rule collect:
    input:
        code=code("collect"),
        runs=lambda wildcards: [
            f"{RUN}/replay{{replays}}/metrics.csv".format(
                experiment=wildcards.experiment, dataset=d, replays=r, seed=s
            )
            for d, r, s in runs(wildcards.experiment)
        ],
    output:
        "results/{experiment}/metrics.csv",
    log:
        "results/{experiment}/logs/collect.log",
    benchmark:
        "results/{experiment}/benchmarks/collect.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    message:
        "metrics of {wildcards.experiment}"
    shell:
        "python -m drcrm collect {input.runs} --output {output} 2> {log}"


rule tables:
    input:
        code("tables"),
        paper=os.path.relpath(SOURCE / "drcrm/data/paper_tables.csv"),
        metrics="results/{experiment}/metrics.csv",
    output:
        expand("results/{{experiment}}/tables/{table}.{kind}", table=[*LOSSES, "hyperparameters"], kind=["md", "tex"]),
        "results/{experiment}/tables/paper_comparison.md",
        report(
            expand("results/{{experiment}}/tables/{table}.csv", table=LOSSES),
            caption="../report/losses.rst",
            category="Tables",
        ),
        report(
            "results/{experiment}/tables/hyperparameters.csv",
            caption="../report/hyperparameters.rst",
            category="Tables",
        ),
        report(
            "results/{experiment}/tables/paper_comparison.csv",
            caption="../report/paper_comparison.rst",
            category="Tables",
        ),
    log:
        "results/{experiment}/logs/tables.log",
    benchmark:
        "results/{experiment}/benchmarks/tables.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder="results/{experiment}/tables",
        datasets=of("datasets"),
        selection=of("selection"),
        seeds=of("seeds"),
        replay_count=of("replay_count"),
        grids=grids,
        papers=papers,
    message:
        "tables of {wildcards.experiment}"
    shell:
        "python -m drcrm tables --metrics {input.metrics} --datasets {params.datasets} --selection {params.selection}"
        " --seeds {params.seeds} --replay-count {params.replay_count} --grid {params.grids} --paper {params.papers:q}"
        " --output {params.folder} 2> {log}"


rule replay_figure:
    input:
        code("figures"),
        metrics="results/{experiment}/metrics.csv",
    output:
        multiext("results/{experiment}/figures/replay_count_{dataset}", ".pdf", ".png"),
        report(
            "results/{experiment}/figures/replay_count_{dataset}.svg",
            caption="../report/replay_count.rst",
            category="Figures",
        ),
    log:
        "results/{experiment}/logs/replay_count_{dataset}.log",
    benchmark:
        "results/{experiment}/benchmarks/replay_count_{dataset}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        selection=lambda wildcards: of("selection")(wildcards)[0],
        curve=of("replay_curve"),
    message:
        "replay-count figure of {wildcards.experiment} on {wildcards.dataset}"
    shell:
        "python -m drcrm figures replay_count --metrics {input.metrics} --dataset {wildcards.dataset}"
        " --selection {params.selection} --seeds {params.curve[seeds]} --replay-counts {params.curve[counts]}"
        " --output {output} 2> {log}"
