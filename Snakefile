from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/options.smk"
include: "workflow/rules/targets.smk"


wildcard_constraints:
    experiment="|".join(config["experiments"]),
    dataset="|".join(config["datasets"]),
    algorithm="|".join(name for name in config["algorithms"] if not lookups.is_classifier(config, name)),
    classifier="|".join(name for name in config["algorithms"] if lookups.is_classifier(config, name)),
    seed=r"\d+",
    replays=r"\d+",
    table="metrics|grids",
    figure="|".join(FIGURE_TITLES),
    lemma="|".join(sorted({each.lemma for each in LEMMA_FIGURES.values()})),
    shown="|".join(LEMMA_FIGURES),
    study="|".join(config["studies"]),
    file="[^/]+",
    own="|".join(config["logs"]) or "(?!)",
    made="|".join([*config["experiments"], "theory", *(f"studies/{name}" for name in config["studies"])]),


rule all:
    input:
        [targets(name) if name in config["experiments"] else log_files(name) for name in config["run"]],


for experiment in config["experiments"]:

    rule:
        name:
            experiment
        input:
            targets(experiment),
        message:
            f"all of {experiment}"


include: "workflow/rules/data.smk"
include: "workflow/rules/learn.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/logs.smk"


# In a module, what a run minds and says is the other workflow's.
if not IS_MODULE:

    include: "workflow/rules/hooks.smk"
