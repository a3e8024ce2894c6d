"""The paper's lemmas in numbers, on data sets whose training contexts are the whole population."""


rule theory_table:
    input:
        train="resources/{dataset}/train.npz",
    output:
        table="results/theory/{lemma}_{dataset}.csv",
    log:
        "results/theory/logs/{lemma}_{dataset}.log",
    benchmark:
        "results/theory/benchmarks/{lemma}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **STUDY_RESOURCES,
    params:
        code=code("theory_table"),
        files=job_files,
        settings=theory_settings,
    message:
        "{wildcards.lemma} on {wildcards.dataset}"
    shell:
        shell_command("theory_table")


rule theory_figure:
    input:
        table=table_of_figure,
    output:
        figures=pictures("results/theory/figures/{lemma_figure}_{dataset}", LEMMA_PAGE),
    log:
        "results/theory/logs/{lemma_figure}_{dataset}.log",
    benchmark:
        "results/theory/benchmarks/{lemma_figure}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("theory_figure"),
        files=job_files,
        settings=lambda wildcards: json.dumps({"figure": wildcards.lemma_figure}),
        words=words_of_lemma,
    message:
        "{wildcards.lemma_figure} figure of the theory on {wildcards.dataset}"
    shell:
        shell_command("theory_figure")
