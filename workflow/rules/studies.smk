"""Measurements next to the experiments, by the scripts in studies/: on finished runs, on samples, and the theory."""

LEMMA_PAGE = {
    "caption": "../report/theory.rst",
    "category": "Theory",
    "labels": lambda wildcards: {
        "figure": LEMMA_FIGURES[wildcards.lemma_figure]["title"],
        "data": config["datasets"][wildcards.dataset]["label"],
    },
}


def table_of_figure(wildcards):
    """Return the table of a figure's lemma."""
    return f"results/theory/{LEMMA_FIGURES[wildcards.lemma_figure]['lemma']}_{wildcards.dataset}.csv"


def words_of_lemma(wildcards):
    """Return the words of a figure's caption."""
    label = config["datasets"][wildcards.dataset]["label"]
    return {"data": label, "repetitions": config["theory"]["repetitions"]}


def code_of_script(name):
    """Return the versions of drcrm, of a script in studies/ and of the scripts that it imports."""
    finder = ModuleFinder(path=[str(PROJECT / "studies")])
    finder.run_script(str(PROJECT / f"studies/{name}.py"))
    scripts = {PROJECT / f"studies/{name}.py", *(Path(m.__file__) for m in finder.modules.values() if m.__file__)}
    return {**whole_package(), **{script.name: version(script) for script in sorted(scripts)}}


def code_of_study(wildcards):
    """Return the versions of the command and of the code of a study."""
    return code_of_script("__main__") | code_of_script(wildcards.study)


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
        code=lambda wildcards: code_of_script("lemma_tables"),
        seed=config["theory"]["seed"],
        repetitions=config["theory"]["repetitions"],
    message:
        "{wildcards.lemma} on {wildcards.dataset}"
    shell:
        f"python {shlex.quote(STUDIES)}/theory.py table --lemma {{wildcards.lemma}} --dataset {{wildcards.dataset}}"
        " --seed {params.seed} --repetitions {params.repetitions} --train {input.train} --output {output.table} 2> {log}"


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
        code=lambda wildcards: code_of_script("lemma_figures"),
        words=words_of_lemma,
    message:
        "{wildcards.lemma_figure} figure of the theory on {wildcards.dataset}"
    shell:
        f"python {shlex.quote(STUDIES)}/theory.py figure --figure {{wildcards.lemma_figure}} --table {{input.table}}"
        " --output {output.figures} 2> {log}"
