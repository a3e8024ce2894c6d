"""What a run shows on the screen: a line for each job that has ended; Snakemake's log file has everything.

And what a run minds: whether its folder can be written to, an old report, whether a command works.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

HIDDEN = ("JOB_STARTED", "RESOURCES_INFO", "SHELLCMD", "WORKFLOW_STARTED")  # events of Snakemake
ROUTINE = ("Building DAG", "Conda environments: ignored", "Execute ", "Select jobs", "Using shell")
STOPPING = "Terminating processes on user request"
STOPPED = "At least one job did not complete"  # which a stop is no news of
CALLED = "CalledProcessError in file"  # what a job that fails has left in its log says more
LEAST = 2**20  # bytes: with less, not even a log can be written


class Screen:
    """A filter and a formatter of log records for the screen: how far a run is, which job ended, and what fails.

    ``plain`` formats the other records.
    """

    def __init__(self, plain: logging.Formatter):
        self.plain = plain
        self.start = time.monotonic()
        self.titles: dict[int, str] = {}
        self.ended = ""
        self.stopped = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is shown."""
        event = _event(record)
        if event == "JOB_INFO":
            self.titles[record.jobid] = record.rule_msg or record.rule_name
        elif event == "JOB_FINISHED":
            self.ended = self.titles.pop(record.job_id, "")
        elif event not in HIDDEN and not (event == "JOB_ERROR" and self.stopped):
            text = record.getMessage()
            self.stopped |= text.startswith(STOPPING)
            return not (text.startswith(ROUTINE) or CALLED in text or (self.stopped and STOPPED in text))
        return False

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        event = _event(record)
        if event == "RUN_INFO":
            counts = ", ".join(f"{count} {rule}" for rule, count in record.stats.items() if rule != "total")
            return f"{record.stats['total']} jobs: {counts}"
        if event == "PROGRESS":
            minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
            done = f"{record.done:>{len(str(record.total))}} of {record.total}"
            return f"{done}  {minutes}:{seconds:02}  {self.ended}"
        if event == "JOB_ERROR":
            title = self.titles.get(record.jobid, record.rule_name)
            return "\n".join([f"failed: {title}", *filter(None, map(_content, record.log))])
        if self.stopped and record.getMessage().startswith(STOPPING):
            return "stopped on request: the same command goes on from here"
        return self.plain.format(record)


def unusable(folder: str) -> str:
    """Why nothing can be written in a folder, in one line with its path; nothing if it can, or if there is none."""
    path = os.path.abspath(folder)
    if not os.path.isdir(path):
        return ""
    if not os.access(path, os.W_OK):
        return f"{path}: cannot be written to"
    return f"{path}: no space left on device" if shutil.disk_usage(path).free < LEAST else ""


def remove_if_older(report: str | Path, files: Iterable[str | Path]) -> None:
    """Remove a report once one of the files that it shows is made anew."""
    made = [os.stat(file).st_mtime for file in files if os.path.exists(file)]
    if os.path.exists(report) and max(made, default=0) > os.stat(report).st_mtime:
        os.remove(report)


def succeeds(*command: str) -> bool:
    """Whether a command succeeds within a minute; what it says is dropped."""
    try:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def headline(table: str | Path) -> str:
    """The first table of a Markdown file under its caption, with its columns aligned."""
    caption, rows, *_ = Path(table).read_text(encoding="utf-8").split("\n\n")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells if set(row) != {"---"}]
    return "\n".join([caption, "", *lines])


def _event(record: logging.LogRecord) -> str:
    return getattr(getattr(record, "event", None), "name", "")


def _content(log: str) -> str:
    """What a job has left in its log, or where that is."""
    try:
        return Path(log).read_text(encoding="utf-8", errors="replace").strip() or f"(nothing is in {log})"
    except OSError:
        return f"(there is no {log})"
