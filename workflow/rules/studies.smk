"""Measurements next to the experiments, by the scripts in studies/: on finished runs, on samples, and the theory."""

import shlex

STUDIES = os.path.relpath(PROJECT / "studies")
SHARDS = 20  # jobs of a study, at most


def code_of_study(wildcards):
    """Return the digest of drcrm and of the scripts of all studies, since some import others."""
    return [code_digest(SOURCE), code_digest(PROJECT / "studies")]


def shards_of(entry):
    """Return the numbers of the shards of a study or an evaluation."""
    return range(min(SHARDS, entry.get("repetitions", 1)))


def arguments_of_repetitions(entry, shard, folder):
    """Return the arguments of a study's command for a shard: repetitions, options, and the folder of the files."""
    count, shards = entry.get("repetitions", 1), len(shards_of(entry))
    first, end = (place * count // shards for place in (shard, shard + 1))
    return [
        *folder,
        "--repetitions",
        first,
        end,
        "--options",
        json.dumps(runs.options_of_entry(config, entry)),
    ]


def rows_of_study(wildcards):
    """Return the tables of the runs, or of the shards, of a study."""
    folder = f"results/studies/{wildcards.study}"
    if "runs" not in config["studies"][wildcards.study]:
        return [f"{folder}/shard{shard}.csv" for shard in shards_of(config["studies"][wildcards.study])]
    return [f"{folder}/{e}/{d}/seed{s}/replay{r}.csv" for e, d, r, s in runs.study_runs(config, wildcards.study)]


def files_of_study(wildcards):
    """Return the files of the mirror, or the data sets, that a study reads."""
    study = config["studies"][wildcards.study]
    files = [f"resources/studies/{wildcards.study}/{name}" for name in study.get("files", {})]
    return files + [f"resources/{name}/train.npz" for name in study.get("datasets", [])]


def arguments_of_run(wildcards, input):
    """Return the arguments of a study's command for one run."""
    return [
        *("--run", os.path.dirname(input.policy), "--resources", os.path.dirname(input.contexts[0])),
        *("--dataset", wildcards.dataset, "--seed", wildcards.seed),
        *("--options", json.dumps(runs.options_of_entry(config, config["studies"][wildcards.study]))),
    ]


def arguments_of_shard(wildcards, input):
    """Return the arguments of a study's command for some repetitions."""
    study = config["studies"][wildcards.study]
    resources = ["resources"] if "datasets" in study else [os.path.dirname(name) for name in input[:1]]
    return arguments_of_repetitions(study, int(wildcards.shard), ["--resources", *resources] if resources else [])


rule study_file:
    output:
        file="resources/studies/{study}/{file}",
    log:
        "resources/studies/{study}/logs/{file}.log",
    localrule: True
    params:
        code=pipeline_code,
        mirror=unchecked(config["mirror"] or ""),
        settings=lambda w: json.dumps(runs.file_of_study(config, w.study, w.file)),
    message:
        "fetch {wildcards.file} of {wildcards.study}"
    shell:
        "python -P -m drcrm.paper.steps data.fetch_file"
        " --mirror={params.mirror:q} --file={output.file} --settings={params.settings:q} 2> {log}"


rule study_run:
    input:
        policy=shared("logging"),
        contexts=multiext("resources/{dataset}/", "train.npz", "test.npz"),
    output:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replay_count}.csv",
    log:
        "results/studies/{study}/{experiment}/{dataset}/seed{seed}/replay{replay_count}.log",
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
        arguments=arguments_of_run,
    shell:
        f"python {shlex.quote(STUDIES)} {{wildcards.study}} {{params.arguments:q}} --output {{output}} 2> {{log}}"


rule study_shard:
    input:
        files_of_study,
    output:
        "results/studies/{study}/shard{shard}.csv",
    log:
        "results/studies/logs/{study}_shard{shard}.log",
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
        arguments=arguments_of_shard,
    message:
        "shard {wildcards.shard} of {wildcards.study}"
    shell:
        f"python {shlex.quote(STUDIES)} {{wildcards.study}} {{params.arguments:q}} --output {{output}} 2> {{log}}"


rule study_table:
    input:
        rows_of_study,
    output:
        table="results/studies/{study}.csv",
        summary="results/studies/{study}.txt",
    log:
        "results/studies/logs/{study}.log",
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
    message:
        "table of {wildcards.study}"
    shell:
        f"python {shlex.quote(STUDIES)} {{wildcards.study}} --rows {{input}}"
        " --output {output.table} > {output.summary} 2> {log}"


rule theory_table:
    input:
        train="resources/{dataset}/train.npz",
    output:
        table="results/theory/{lemma}_{dataset}.csv",
    log:
        "results/theory/logs/{lemma}_{dataset}.log",
    resources:
        **STUDY_RESOURCES,
    params:
        code=code_of_study,
        seed=config["theory"]["seed"],
        repetitions=config["theory"]["repetitions"],
    message:
        "{wildcards.lemma} on {wildcards.dataset}"
    shell:
        f"python {shlex.quote(STUDIES)}/theory.py table --lemma {{wildcards.lemma}} --dataset {{wildcards.dataset}}"
        " --seed {params.seed} --repetitions {params.repetitions} --train {input.train} --output {output.table} 2> {log}"


rule theory_figure:
    input:
        table=lambda w: f"results/theory/{LEMMA_FIGURES[w.lemma_figure]['lemma']}_{w.dataset}.csv",
    output:
        figures=pictures(
            "results/theory/figures/{lemma_figure}_{dataset}",
            {
                "caption": "../report/theory.rst",
                "category": "Theory",
                "labels": lambda w: {
                    "figure": LEMMA_FIGURES[w.lemma_figure]["title"],
                    "data": config["datasets"][w.dataset]["label"],
                },
            },
        ),
    log:
        "results/theory/logs/{lemma_figure}_{dataset}.log",
    params:
        code=code_of_study,
        words=lambda w: {
            "data": config["datasets"][w.dataset]["label"],
            "repetitions": config["theory"]["repetitions"],
        },
    message:
        "{wildcards.lemma_figure} figure of the theory on {wildcards.dataset}"
    shell:
        f"python {shlex.quote(STUDIES)}/theory.py figure --figure {{wildcards.lemma_figure}} --table {{input.table}}"
        " --output {output.figures} 2> {log}"
