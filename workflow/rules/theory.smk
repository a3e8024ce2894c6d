"""The paper's lemmas at work, on data sets whose training contexts are the whole population."""


rule theory:
    input:
        "results/theory/provenance.json",
        expand(
            "results/theory/figures/{shown}_{dataset}.{kind}",
            shown=LEMMA_FIGURES,
            dataset=config["theory"]["datasets"],
            kind=FIGURE_KINDS,
        ),


rule theory_table:
    input:
        code("theory"),
        train="resources/{dataset}/train.npz",
    output:
        "results/theory/{lemma}_{dataset}.csv",
    log:
        "results/theory/logs/{lemma}_{dataset}.log",
    benchmark:
        "results/theory/benchmarks/{lemma}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("theory_table"),
    params:
        theory=config["theory"],
    message:
        "{wildcards.lemma} on {wildcards.dataset}"
    shell:
        "drcrm theory {wildcards.lemma} --train {input.train} --repetitions {params.theory[repetitions]}"
        " --dataset {wildcards.dataset} --seed {params.theory[seed]} --output {output} 2> {log}"


rule theory_figure:
    input:
        code("theory_figure"),
        table=lambda wildcards: f"results/theory/{LEMMA_FIGURES[wildcards.shown].lemma}_{wildcards.dataset}.csv",
    output:
        multiext("results/theory/figures/{shown}_{dataset}", ".pdf", ".png"),
        report(
            "results/theory/figures/{shown}_{dataset}.svg",
            caption="../report/theory.rst",
            category="Theory",
            labels=lambda wildcards: {
                "figure": LEMMA_FIGURES[wildcards.shown].title,
                "data": lookups.label(config, wildcards.dataset),
            },
        ),
    log:
        "results/theory/logs/{shown}_{dataset}.log",
    benchmark:
        "results/theory/benchmarks/{shown}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("theory_figure"),
    params:
        data=lambda wildcards: lookups.label(config, wildcards.dataset),
        repetitions=config["theory"]["repetitions"],
    message:
        "{wildcards.shown} figure of the theory on {wildcards.dataset}"
    shell:
        "drcrm theory_figure {wildcards.shown} --table {input.table} --output {output} 2> {log}"
