"""The files that an experiment leaves."""

TABLES = [*LOSSES, "hyperparameters", "paper_comparison", "differences_to_poem"]
TABLE_KINDS = ["csv", "md", "tex"]
FIGURE_KINDS = ["pdf", "svg", "png"]


def targets(name):
    """All files of an experiment, but the report."""
    folder, experiment = f"results/{name}", config["experiments"][name]
    figures = [f"{figure}_{each}" for figure, of in lookups.figure_datasets(experiment).items() for each in of]
    overview = BASELINE in experiment["algorithms"]  # from which it measures
    return [
        *(f"{folder}/{table}.csv" for table in ("metrics", "grids")),
        f"{folder}/provenance.json",
        *expand(f"{folder}/tables/{{table}}.{{kind}}", table=TABLES, kind=TABLE_KINDS),
        f"{folder}/pages",
        *([f"{folder}/summary.rst"] if overview else []),
        *expand(f"{folder}/figures/{{name}}.{{kind}}", name=["overview"] * overview + figures, kind=FIGURE_KINDS),
    ]


def figure_title(name):
    """The title of a figure in a report, which lists titles by the alphabet: with its number in our order."""
    return f"{list(FIGURE_TITLES).index(name) + 1} {FIGURE_TITLES[name]}"


def log_files(name):
    """What is made of a log of one's own."""
    return [f"results/{name}/{each}" for each in ("policy.npz", "answer.json", "report.html")]
