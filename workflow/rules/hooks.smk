"""What a run minds before it starts, and says while it goes on and when it has ended."""

from contextlib import suppress
from difflib import get_close_matches

# The experiments that are asked for: Snakemake knows its targets only once it has read this.
asked = [name for name in config["experiments"] if name in sys.argv[1:]] or config["run"]

if workflow.is_main_process and not workflow.output_settings.dryrun:
    for folder in (".", "resources", "results"):
        if fault := unusable(folder):
            sys.exit(f"drcrm: {fault}")

if workflow.is_main_process:
    for name in asked:
        if other := made_otherwise(f"results/{name}/provenance.json", lookups.settings(config, name)):
            print(
                f"drcrm: results/{name} was made with other {other}: what depends on that runs again, in its place. "
                "Give the experiment another name to keep both; remove the folder if nothing runs again.",
                file=sys.stderr,
            )

# Snakemake says of a target that it is none, not what there is.
if workflow.is_main_process:
    for word in {*sys.argv[1:]} - {*config["experiments"]}:
        if not word.replace("-", "_").isidentifier() or word.startswith("-"):
            continue
        if near := get_close_matches(word, config["experiments"], n=1, cutoff=0.8):
            print(f"drcrm: there is no experiment {word!r}; did you mean {near[0]!r}?", file=sys.stderr)
        elif os.path.exists(f"results/{word}/metrics.csv"):
            print(
                f"drcrm: results/{word} is of an experiment that the configuration lacks: give its file, "
                "--configfile FILE (with make CONFIG=FILE)",
                file=sys.stderr,
            )

# On a cluster, and with --verbose, Snakemake says what it says. There is no public way to its handlers.
if workflow.is_main_process and workflow.local_exec:
    with suppress(AttributeError):
        if not (workflow.output_settings.dryrun or workflow.output_settings.verbose):
            install(workflow.logger_manager.logger)


# Under a limit of jobs per second, on by default, Snakemake reconsiders all that is left once a second for every job that
# has ended: after some hundred jobs it keeps a core busy. On a cluster the limit stays. There is no public way to lift it:
# this one works in 9.0, 9.14 and 9.27, and a version that has it no more is only slower.
onstart:
    locks = workflow.local_exec and workflow.is_main_process and workflow.execution_settings.lock
    if locks and not hold(LOCK, alone=True):
        sys.exit(
            f"drcrm: another run, or a job that one has left behind, works in {os.getcwd()}: wait for it or end it"
        )
    with suppress(AttributeError):
        if workflow.local_exec:
            workflow.scheduler.job_rate_limiter = None
    # Where no accounting database answers sacct, the plugin for Slurm would wait for ever.
    asking = workflow.executor_settings
    if getattr(asking, "status_command", None) == "sacct" and not succeeds("sacct", "--allocations"):
        print("Slurm has no accounting database here: squeue is asked how jobs are.", file=sys.stderr)
        asking.status_command = "squeue"


onsuccess:
    targets = {*workflow.dag_settings.targets} - {"all"} or config["run"]  # which Snakemake knows by now
    for name in [name for name in config["experiments"] if name in targets]:
        table = f"results/{name}/tables/{next(iter(LOSSES))}.md"
        if os.path.exists(table):
            print(f"\n{headline(table)}\n\nTables and figures: results/{name}. Report: {report_command(name)}")


onerror:
    if fault := unusable("."):
        print(f"drcrm: {fault}", file=sys.stderr)


# A report opens on what was found by the experiment that it is asked of.
for name in asked[:1]:
    if os.path.exists(summary(name)):

        report: os.path.abspath(summary(name))
