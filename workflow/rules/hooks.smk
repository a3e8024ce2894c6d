"""What a run minds before it starts, and says while it goes on and when it has ended."""

from contextlib import suppress

from snakemake.cli import get_argument_parser

# What the command asks for, which Snakemake keeps to itself until it has read this.
is_command = workflow.is_main_process and "snakemake" in Path(sys.argv[0]).parts[-2:]
command, _ = get_argument_parser().parse_known_args(sys.argv[1:] if is_command else [])
asked = [name for name in config["experiments"] if name in command.targets] or config["run"]

# Of a target that is none Snakemake does not say which there are.
for name in {*command.targets} - {rule.name for rule in workflow.rules}:
    if "/" not in name and not os.path.exists(name):
        sys.exit(f"drcrm: {unknown_experiment(name, config)}")

if workflow.is_main_process and not workflow.output_settings.dryrun:
    for folder in (".", "resources", "results"):
        if fault := unusable(folder):
            sys.exit(f"drcrm: {fault}")

if workflow.is_main_process:
    for name in asked:
        if not command.report and (gone := left_out(merged, config, name)):
            print(f"drcrm: {name}: {gone}", file=sys.stderr)
        if other := made_otherwise(f"results/{name}/provenance.json", lookups.settings(config, name)):
            print(
                f"drcrm: results/{name} was made with other {other}: what depends on that runs again, in its place. "
                "Give the experiment another name to keep both; remove the folder if nothing runs again.",
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
