"""Tables and figures of an experiment, and the record of its code, packages and configuration."""


rule collect:
    input:
        runs=runs_of,
    output:
        table="results/{experiment}/{table}.csv",
    log:
        "results/{experiment}/logs/{table}.log",
    benchmark:
        "results/{experiment}/benchmarks/{table}.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("collect"),
        files=job_files,
        settings=settings(),
    message:
        "{wildcards.table} of {wildcards.experiment}"
    shell:
        shell_command("collect")


rule provenance:
    input:
        recorded_tables,
    output:
        provenance="results/{subject}/provenance.json",
    log:
        "results/{subject}/logs/provenance.log",
    benchmark:
        "results/{subject}/benchmarks/provenance.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("provenance"),
        files=project_files,
        settings=lambda wildcards: json.dumps(provenance_parameters(config, wildcards.subject), sort_keys=True),
    message:
        "provenance of {wildcards.subject}"
    shell:
        shell_command("provenance")


rule tables:
    input:
        metrics="results/{experiment}/metrics.csv",
    output:
        **TABLE_FILES,
    log:
        "results/{experiment}/logs/tables.log",
    benchmark:
        "results/{experiment}/benchmarks/tables.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("tables"),
        files=job_files,
        settings=plan("tables"),
        words=words("tables"),
    message:
        "tables of {wildcards.experiment}"
    shell:
        shell_command("tables")


rule overview:
    input:
        metrics="results/{experiment}/metrics.csv",
    output:
        **OVERVIEW_FILES,
    log:
        "results/{experiment}/logs/overview.log",
    benchmark:
        "results/{experiment}/benchmarks/overview.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("overview"),
        files=job_files,
        settings=plan("overview"),
        words=words("overview"),
    message:
        "overview of {wildcards.experiment}"
    shell:
        shell_command("overview")


rule figure:
    input:
        **RESULTS,
    output:
        figures=pictures("results/{experiment}/figures/{figure}_{dataset}", FIGURE_PAGE),
    log:
        "results/{experiment}/logs/{figure}_{dataset}.log",
    benchmark:
        "results/{experiment}/benchmarks/{figure}_{dataset}.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("figure"),
        files=job_files,
        settings=figure_settings,
        words=words(),
    message:
        "{wildcards.figure} figure of {wildcards.experiment} on {wildcards.dataset}"
    shell:
        shell_command("figure")
