"""Tables and figures of an experiment, and the record of its code, packages and configuration."""


def pictures(path, page):
    """Return the files of a figure. The report shows the svg."""
    return [f"{path}.pdf", f"{path}.png", report(f"{path}.svg", **page)]


def recorded_tables(wildcards):
    """Return the tables whose provenance a job records."""
    if wildcards.subject == "theory":
        return expand("results/theory/{lemma}_{dataset}.csv", lemma=LEMMAS, dataset=config["theory"]["datasets"])
    is_study = wildcards.subject.startswith("studies/")
    return f"results/{wildcards.subject}/metrics.csv" if not is_study else f"results/{wildcards.subject}.csv"


def words(part=None):
    """Return a function from the wildcards to the words of a caption, by default of the job's figure."""
    return lambda w: runs.caption_words(config, w.experiment, part or w.figure, [w.dataset] if part is None else [])


def plan(part=None):
    """Return a function from the wildcards to the plan of ``tables``, ``overview``, or the job's figure, as JSON."""
    template = (PROJECT / f"workflow/report/{part or 'figures'}.rst").read_text(encoding="utf-8")

    def fill(w):
        contents = asdict(runs.report_plan(config, w.experiment, part or w.figure, [] if part else [w.dataset]))
        caption = "" if part == "tables" else fill_caption(template, words(part)(w), **w)
        return json.dumps(contents | {"caption": caption}, ensure_ascii=False)

    return fill


rule collect:
    input:
        runs=lambda w: [
            f"{LOG}/{{table}}.csv".format(dataset=dataset, replay_count=count, seed=seed, **w)
            for dataset, count, seed in runs.all_runs(config["experiments"][w.experiment])
        ],
    output:
        table="results/{experiment}/{table}.csv",
    log:
        "results/{experiment}/logs/{table}.log",
    params:
        code=library_code,
    message:
        "{wildcards.table} of {wildcards.experiment}"
    shell:
        "python -P -m drcrm.paper.steps results.collect" " --runs {input.runs} --table={output.table} 2> {log}"


rule provenance:
    input:
        recorded_tables,
    output:
        provenance="results/{subject}/provenance.json",
    log:
        "results/{subject}/logs/provenance.log",
    params:
        code=library_code,
        project=unchecked(PROJECT),
        settings=lambda w: json.dumps(runs.provenance_parameters(config, w.subject), sort_keys=True),
    message:
        "provenance of {wildcards.subject}"
    shell:
        "python -P -m drcrm.paper.steps results.provenance"
        " --project={params.project:q} --provenance={output.provenance} --settings={params.settings:q} 2> {log}"


rule tables:
    input:
        metrics="results/{experiment}/metrics.csv",
    output:
        tables=expand("results/{{experiment}}/tables/{table}.{kind}", table=TABLES, kind=TABLE_KINDS),
        more=directory("results/{experiment}/more_tables"),
        pages=report(
            directory("results/{experiment}/pages"),
            patterns=["{title}.html"],
            caption="../report/tables.rst",
            category="2 Tables",
            labels={"table": "{title}"},
        ),
    log:
        "results/{experiment}/logs/tables.log",
    params:
        code=pipeline_code,
        settings=plan("tables"),
        words=words("tables"),
    message:
        "tables of {wildcards.experiment}"
    shell:
        "python -P -m drcrm.paper.steps results.tables"
        " --metrics={input.metrics} --tables {output.tables} --more={output.more} --pages={output.pages}"
        " --settings={params.settings:q} 2> {log}"


rule overview:
    input:
        metrics="results/{experiment}/metrics.csv",
    output:
        figures=pictures(
            "results/{experiment}/figures/overview",
            {
                "caption": "../report/overview.rst",
                "category": "1 Overview",
                "labels": {"figure": "From CIPS to full supervision"},
            },
        ),
        latex="results/{experiment}/figures/overview.tex",
        summary="results/{experiment}/summary.rst",
    log:
        "results/{experiment}/logs/overview.log",
    params:
        code=pipeline_code,
        settings=plan("overview"),
        words=words("overview"),
    message:
        "overview of {wildcards.experiment}"
    shell:
        "python -P -m drcrm.paper.steps results.overview"
        " --metrics={input.metrics} --figures {output.figures} --latex={output.latex} --summary={output.summary}"
        " --settings={params.settings:q} 2> {log}"


rule figure:
    input:
        metrics="results/{experiment}/metrics.csv",
        grids="results/{experiment}/grids.csv",
    output:
        figures=pictures(
            "results/{experiment}/figures/{figure}_{dataset}",
            {
                "caption": "../report/figures.rst",
                "category": "3 Figures",
                "labels": lambda w: {  # figures are numbered, because a report sorts their titles
                    "figure": f"{list(FIGURE_TITLES).index(w.figure) + 1} {FIGURE_TITLES[w.figure]}",
                    "data": config["datasets"][w.dataset]["label"],
                },
            },
        ),
        latex="results/{experiment}/figures/{figure}_{dataset}.tex",
    log:
        "results/{experiment}/logs/{figure}_{dataset}.log",
    params:
        code=pipeline_code,
        settings=plan(),
        words=words(),
    message:
        "{wildcards.figure} figure of {wildcards.experiment} on {wildcards.dataset}"
    shell:
        "python -P -m drcrm.paper.steps results.figure"
        " --metrics={input.metrics} --grids={input.grids} --figures {output.figures} --latex={output.latex}"
        " --settings={params.settings:q} 2> {log}"
