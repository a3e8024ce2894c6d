"""What an experiment consists of: its runs, and the files it leaves."""

TABLES = [*LOSSES, "hyperparameters", "paper_comparison", "differences_to_poem"]
TABLE_KINDS = ["csv", "md", "tex"]
FIGURE_KINDS = ["pdf", "svg", "png"]


def runs(name):
    """The (data set, replay count, seed) of an experiment's tables and of its replay-count figure, each once."""
    experiment = config["experiments"][name]
    curve = experiment.get("replay_curve", {"datasets": [], "counts": [], "seeds": 0})
    tables = [(d, experiment["replay_count"], s) for d in experiment["datasets"] for s in range(experiment["seeds"])]
    figure = [(d, c, s) for d in curve["datasets"] for c in curve["counts"] for s in range(curve["seeds"])]
    return sorted(dict.fromkeys(tables + figure))


def has_overview(name):
    """Whether an experiment has the algorithm from which the overview measures."""
    return BASELINE in config["experiments"][name]["algorithms"]


def summary(name):
    """The first page of an experiment's report."""
    return f"results/{name}/summary.rst"


def targets(name):
    """All files of an experiment, but the report."""
    folder, experiment = f"results/{name}", config["experiments"][name]
    figures = lookups.figure_datasets(experiment)
    return [
        f"{folder}/metrics.csv",
        f"{folder}/provenance.json",
        *expand(f"{folder}/tables/{{table}}.{{kind}}", table=TABLES, kind=TABLE_KINDS),
        f"{folder}/pages",
        *(
            [summary(name), *(f"{folder}/figures/overview.{kind}" for kind in FIGURE_KINDS)]
            if has_overview(name)
            else []
        ),
        *(f"{folder}/figures/{f}_{d}.{kind}" for f, names in figures.items() for d in names for kind in FIGURE_KINDS),
    ]
