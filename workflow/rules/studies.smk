"""What is measured beside the experiments, by the scripts in studies/: on finished runs, and on samples."""

for study in config["studies"]:

    rule:
        name:
            f"{study}_study"
        input:
            f"results/studies/{study}.csv",
            f"results/studies/{study}/provenance.json",


rule studies:
    input:
        expand("results/studies/{study}.csv", study=config["studies"]),
        expand("results/studies/{study}/provenance.json", study=config["studies"]),


rule study_file:
    input:
        code("fetch_file"),
    output:
        "resources/studies/{study}/{file}",
    log:
        "resources/studies/{study}/logs/{file}.log",
    benchmark:
        "resources/studies/{study}/benchmarks/{file}.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        digest=lambda wildcards: lookups.study_files(config, wildcards.study)[wildcards.file],
        mirror=mirror,
    message:
        "fetch {wildcards.file} of {wildcards.study}"
    shell:
        "drcrm fetch_file {params.mirror:q} --folder {wildcards.study} --sha256 {params.digest} --output {output} 2> {log}"


rule study_run:
    input:
        study_code,
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
        **asked("study"),
    params:
        studies=STUDIES,
        run=lambda wildcards, input: os.path.dirname(input.policy),
        resources=lambda wildcards, input: os.path.dirname(input.contexts[0]),
        options=study_options,
    message:
        "{wildcards.study} of {wildcards.experiment} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python {params.studies:q} {wildcards.study} --run {params.run} --resources {params.resources} --dataset {wildcards.dataset}"
        " --seed {wildcards.seed} --options {params.options:q} --output {output} 2> {log}"


rule study_table:
    input:
        study_code,
        rows=study_rows,
        files=study_files,
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
        **asked("study"),
    params:
        studies=STUDIES,
        given=study_given,
    message:
        "table of {wildcards.study}"
    shell:
        "python {params.studies:q} {wildcards.study} {params.given:q} --output {output.table} > {output.summary} 2> {log}"
