"""Measurements next to the experiments, by the scripts in studies/: on finished runs, and on samples."""


rule study_file:
    output:
        file="resources/studies/{study}/{file}",
    log:
        "resources/studies/{study}/logs/{file}.log",
    benchmark:
        "resources/studies/{study}/benchmarks/{file}.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code("fetch_file"),
        files=mirror_files,
        settings=file_settings,
    message:
        "fetch {wildcards.file} of {wildcards.study}"
    shell:
        shell_command("fetch_file")


rule study_run:
    input:
        policy=f"{RUN}/logging.npz",
        contexts=multiext("resources/{dataset}/", "train.npz", "test.npz"),
    output:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.csv",
    log:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.log",
    benchmark:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replays}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
        arguments=arguments_of_run,
    shell:
        f"python {shlex.quote(STUDIES)} {{wildcards.study}} {{params.arguments:q}} --output {{output}} 2> {{log}}"


rule study_table:
    input:
        rows=rows_of_study,
        files=files_of_study,
    output:
        table="results/studies/{study}.csv",
        summary="results/studies/{study}.txt",
    log:
        "results/studies/logs/{study}.log",
    benchmark:
        "results/studies/benchmarks/{study}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
        arguments=arguments_of_table,
    shell:
        f"python {shlex.quote(STUDIES)} {{wildcards.study}} {{params.arguments:q}}"
        " --output {output.table} > {output.summary} 2> {log}"
