"""Runs of the workflow, with and without Slurm, and their results."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster import Cluster

PROJECT = Path(__file__).resolve().parents[2]
PROFILE = ["--workflow-profile", f"{PROJECT}/profiles/slurm"]
QUICK = [  # the private cluster can be polled more often, and has no accounting database
    "--slurm-init-seconds-before-status-checks=2",
    "--latency-wait=10",
    "--slurm-status-command=squeue",
]
LIMIT = 1200  # seconds that a run may take
FOREIGN = ("SNAKEMAKE_", "DRCRM_", "PYTHONPATH")  # variables that would change the workflow


class Run:
    """A run of the workflow in a folder, on a Slurm cluster through the project's profile."""

    def __init__(self, cluster: Cluster, work: Path, *arguments: str):
        work.mkdir(parents=True, exist_ok=True)
        self.log = work / "run.log"
        with open(self.log, "a") as stream:
            self.process = subprocess.Popen(
                [*command(*arguments), *PROFILE, *QUICK],
                cwd=work,
                env=environment(cluster.environment()),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # a script's background job may ignore the signal, and pytest would pass that on
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def end(self) -> str:
        """Wait for the end, check that the run succeeded, and return its output."""
        code = self.process.wait(timeout=LIMIT)
        output = self.log.read_text()
        assert code == 0, output[-8000:]
        return output

    def interrupt(self) -> None:
        """Stop a run that has not ended, like Ctrl-C. Snakemake then cancels its jobs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run_here(work: Path, *arguments: str) -> None:
    """Run the workflow in a folder without Slurm."""
    options = {"cwd": work, "env": environment(os.environ), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.run(command("--cores=2", *arguments), **options, text=True, check=False)
    assert process.returncode == 0, process.stdout


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--snakefile", f"{PROJECT}/Snakefile", *arguments]


def environment(variables) -> dict[str, str]:
    """Return variables without those that change the workflow. This Python comes first on the path."""
    remaining = {name: value for name, value in variables.items() if not name.startswith(FOREIGN)}
    return {**remaining, "PATH": f"{Path(sys.executable).parent}:{remaining['PATH']}"}


def results(work: Path, experiment: str) -> dict[str, bytes]:
    """Return name → content of an experiment's files, without logs, benchmarks, provenance and report."""
    folder = work / "results" / experiment
    left_out = {".log", "provenance.json", "report.html"}
    paths = (path for path in folder.rglob("*") if path.is_file() and not {path.suffix, path.name} & left_out)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
