"""What a run minds before it starts, and says when it has ended."""

from shlex import quote

from drcrm.experiments.locks import hold
from drcrm.experiments.config import left_out, unknown_experiment
from drcrm.experiments.screen import headline, remove_if_older, succeeds, unusable

wanted = [name for name in (*config["experiments"], *config["logs"]) if name in sys.argv] or config["run"]
wanted = [name for name in wanted if name in config["experiments"]]
is_report = any(word.partition("=")[0] == "--report" for word in sys.argv)

if workflow.is_main_process and not workflow.output_settings.dryrun:
    for folder in (".", "resources", "results"):
        if fault := unusable(folder):
            sys.exit(f"drcrm: {fault}")

if workflow.is_main_process:
    for name in wanted:
        if not is_report and (gone := left_out(merged, config, name)):
            print(f"drcrm: {name}: {gone}", file=sys.stderr)
        if other := lookups.made_otherwise(f"results/{name}/provenance.json", lookups.made_with(config, name)):
            print(
                f"drcrm: results/{name} was made with other {other}: what depends on that runs again, in its place. "
                "Give the experiment another name to keep both; remove the folder if nothing runs again.",
                file=sys.stderr,
            )


# Of a target that is none Snakemake does not say which there are.
rule unknown_target:
    input:
        lambda wildcards: sys.exit(f"drcrm: {unknown_experiment(wildcards.target, config)}"),
    output:
        "{target,[^/.]+}",


onstart:
    locks = workflow.local_exec and workflow.is_main_process and workflow.execution_settings.lock
    if locks and not hold(LOCK, alone=True):
        sys.exit(
            f"drcrm: another run, or a job that one has left behind, works in {os.getcwd()}: wait for it or end it"
        )
    # Where no accounting database answers sacct, the plugin for Slurm would wait for ever.
    asking = workflow.executor_settings
    if getattr(asking, "status_command", None) == "sacct" and not succeeds("sacct", "--allocations"):
        print("Slurm has no accounting database here: squeue is asked how jobs are.", file=sys.stderr)
        asking.status_command = "squeue"


onsuccess:
    given = " ".join(quote(os.path.relpath(path)) for path in workflow.overwrite_configfiles)
    known = f" CONFIG={quote(given)}" if given else ""
    ended = {*workflow.dag_settings.targets} - {"all"} or {*config["run"]}
    for name in config["experiments"]:
        remove_if_older(f"results/{name}/report.html", targets(name))
        table = f"results/{name}/tables/{next(iter(LOSSES))}.md"
        if name in ended and os.path.exists(table):
            print(f"\n{headline(table)}\n")
            print(f"Tables and figures: results/{name}. Report: make report EXPERIMENT={name}{known}")
    for name in config["logs"]:
        if name in ended:
            print(
                f"\n{Path(f'results/{name}/answer.txt').read_text(encoding='utf-8')}\nPage: results/{name}/report.html"
            )


onerror:
    for name in config["experiments"]:
        remove_if_older(f"results/{name}/report.html", targets(name))
    if fault := unusable("."):
        print(f"drcrm: {fault}", file=sys.stderr)


# A report opens on what was found by the experiment that it is asked of.
for name in wanted[:1]:
    if os.path.exists(f"results/{name}/summary.rst"):

        report: os.path.abspath(f"results/{name}/summary.rst")
