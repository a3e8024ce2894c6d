"""A temporary Slurm cluster on loopback, with private munged, slurmctld and slurmd processes, and runs on it."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = "slurm-wlm munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
SBIN = "/usr/sbin:/sbin"
MEGABYTES = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
CONF = """\
ClusterName=drcrm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
{binding}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldTimeout=10
SlurmdTimeout=30
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill,UsePss
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
EnforcePartLimits=ALL
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
MinJobAge=3600
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} RealMemory={megabytes} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def describe_missing_programs() -> str:
    """Return one line on what to install, or an empty text if Slurm is installed."""
    absent = [name for name in PROGRAMS if not _which(name)]
    install = f"apt-get install -y --no-install-recommends {PACKAGES}"
    return f"Slurm is not installed ({', '.join(absent)} not found): {install}" if absent else ""


class Cluster:
    """A Slurm cluster of one node, with its files in a folder. It runs inside a ``with`` block.

    ``cpus`` and ``megabytes`` are the resources that the node declares. The machine may have less.
    """

    def __init__(self, folder: Path, cpus: int = 8, megabytes: int = 16000):
        self.folder = folder
        self.cpus = cpus
        self.megabytes = megabytes
        self.daemons: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "Cluster":
        self._write_files()
        try:
            munge = self.folder / "munge"
            files = ("socket", "key-file", "pid-file", "seed-file", "log-file")
            self._start("munged", "--foreground", "--force", *(f"--{name}={munge / name}" for name in files))
            self._wait((munge / "socket").exists, "munged is up")
            self._start("slurmctld", "-D", "-c")
            self.start_node()
            self._wait(lambda: self.output_of("sinfo", "-h", "-t", "idle", "-o", "%N") != "", "the node is idle")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_node(self) -> None:
        """Start the node's slurmd."""
        self._start("slurmd", "-D")

    def kill_node(self) -> None:
        """Kill the node's slurmd and its jobs, like a power failure."""
        daemon = self.daemons.pop("slurmd")
        for pid in [*self._steps(), daemon.pid]:
            _send(pid, signal.SIGKILL)
        daemon.wait()

    def stop(self) -> None:
        """Kill all jobs and daemons."""
        for pid in [*self._steps(), *(daemon.pid for daemon in self.daemons.values())]:
            _send(pid, signal.SIGKILL)
        for daemon in self.daemons.values():
            daemon.wait()
        self.daemons.clear()

    def environment(self) -> dict[str, str]:
        """Return the environment of a client of this cluster."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}:{SBIN}"
        return {**os.environ, "SLURM_CONF": f"{self.folder / 'slurm.conf'}", "PATH": path}

    def output_of(self, *command: str) -> str:
        """Return the output of a Slurm command."""
        process = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        return process.stdout.strip()

    def record(self) -> dict[str, dict]:
        """Return Slurm's record of finished jobs: job id → state and the requested CPUs, megabytes and minutes."""
        path = self.folder / "jobs.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return {job["id"]: job for job in map(_job, lines)}

    def _write_files(self) -> None:
        for name in ("munge", "state", "spool", "bin"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o700)
        key = self.folder / "munge/key-file"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        port, node_port = _free_ports(2)
        conf = CONF.format(
            folder=self.folder,
            host=socket.gethostname().split(".")[0],
            binding=_binding(),
            port=port,
            node_port=node_port,
            user=_user(),
            cpus=self.cpus,
            megabytes=self.megabytes,
        )
        (self.folder / "slurm.conf").write_text(conf)
        # The plugin for steps removes SLURM_CONF and all other variables of Slurm before it calls srun.
        srun = self.folder / "bin/srun"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {_which("srun")} "$@"\n')
        srun.chmod(0o755)

    def _start(self, name: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.log", "a") as log:
            options = {"env": self.environment(), "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.daemons[name] = subprocess.Popen([_which(name), *arguments], **options, start_new_session=True)

    def _wait(self, is_done, condition: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not is_done():
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
                raise TimeoutError(f"not after {seconds} s: {condition}; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def _steps(self) -> list[int]:
        """Return the processes of this cluster's jobs, which have its configuration in their environment."""
        variable = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        excluded = {os.getpid(), *(daemon.pid for daemon in self.daemons.values())}
        processes = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in excluded:
                with contextlib.suppress(OSError):
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    is_job = any(text.startswith((b"SLURM_JOB_ID=", b"SLURM_JOBID=")) for text in variables)
                    is_step_daemon = (entry / "comm").read_text().startswith("slurmstepd")
                    if variable in variables and (is_job or is_step_daemon):
                        processes.append(int(entry.name))
        return processes


def _job(line: str) -> dict:
    """Parse a line of jobcomp/filetxt: ``JobId=1 … JobState=COMPLETED … TimeLimit=4 … Tres=cpu=1,mem=500M,…``."""
    fields = dict(re.findall(r"(\w+)=(\S*)", line))
    memory, unit = re.search(r"mem=([\d.]+)([KMGT])", fields["Tres"]).groups()
    return {
        "id": fields["JobId"],
        "state": fields["JobState"],
        "minutes": int(fields["TimeLimit"]),
        "cpus": int(re.search(r"cpu=(\d+)", fields["Tres"])[1]),
        "megabytes": round(float(memory) * MEGABYTES[unit]),
    }


def _binding() -> str:
    """Return the setting that restricts Slurm to loopback, which needs a host name with the address 127.0.0.1."""
    with contextlib.suppress(OSError):
        if socket.gethostbyname(socket.gethostname()) == "127.0.0.1":
            return "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
    return ""


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free_socket in sockets:
            free_socket.bind(("127.0.0.1", 0))
        return [free_socket.getsockname()[1] for free_socket in sockets]


def _user() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:{SBIN}")


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


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
