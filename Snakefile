from contextlib import suppress
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/options.smk"
include: "workflow/rules/needs.smk"
include: "workflow/rules/targets.smk"


# Under a limit of jobs per second, on by default, Snakemake reconsiders all that is left once a second for every job that
# has ended: after some hundred jobs it keeps a core busy. On a cluster the limit stays. There is no public way to lift it:
# this one works in 9.0, 9.14 and 9.27, and a version that has it no more is only slower. In a module the limit is not ours.
if PROJECT == Path(os.path.abspath(workflow.basedir)):

    onstart:
        locks = workflow.local_exec and workflow.is_main_process and workflow.execution_settings.lock
        if locks and not hold(LOCK, alone=True):
            sys.exit(
                f"drcrm: another run, or a job that one has left behind, works in {os.getcwd()}: wait for it or end it"
            )
        for folder in filter(os.path.isdir, ("resources", "results")):
            if workflow.is_main_process and not os.access(folder, os.W_OK):
                sys.exit(f"drcrm: {os.path.abspath(folder)}: cannot be written to")
        with suppress(AttributeError):
            if workflow.local_exec:
                workflow.scheduler.job_rate_limiter = None
        # Where no accounting database answers sacct, the plugin for Slurm would wait for ever.
        asking = workflow.executor_settings
        if getattr(asking, "status_command", None) == "sacct" and not succeeds("sacct", "--allocations"):
            print("Slurm has no accounting database here: squeue is asked how jobs are.", file=sys.stderr)
            asking.status_command = "squeue"

    # A report opens on what was found by the experiment that it is asked of.
    asked = [name for name in config["experiments"] if name in getattr(workflow.dag_settings, "targets", ())]
    for name in asked[:1] or config["run"][:1]:
        if os.path.exists(summary(name)):

            report: os.path.abspath(summary(name))


wildcard_constraints:
    experiment="|".join(config["experiments"]),
    dataset="|".join(config["datasets"]),
    algorithm="|".join(config["algorithms"]),
    seed=r"\d+",
    replays=r"\d+",
    table="metrics|grids",
    figure="|".join(FIGURE_TITLES),
    lemma="|".join(sorted({each.lemma for each in LEMMA_FIGURES.values()})),
    shown="|".join(LEMMA_FIGURES),


rule all:
    input:
        [targets(name) for name in config["run"]],


for experiment in config["experiments"]:

    rule:
        name:
            experiment
        input:
            targets(experiment),


include: "workflow/rules/data.smk"
include: "workflow/rules/learn.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/theory.smk"
