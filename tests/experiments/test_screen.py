"""What a run shows: records of Snakemake's logger, and what becomes of them on the screen."""

from __future__ import annotations

import io
import logging
import os
from types import SimpleNamespace

import pytest

from drcrm.experiments import screen


@pytest.fixture
def log(monkeypatch):
    """A logger with a screen, and a function that logs an event and returns what is shown."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    logger, stream = logging.Logger("run"), io.StringIO()
    handler = logging.StreamHandler(stream)
    shown = screen.Screen(logging.Formatter("plain: %(message)s"))
    handler.addFilter(shown)
    handler.setFormatter(shown)
    logger.addHandler(handler)

    def said(message: str | None = None, event: str = "", **extra) -> str:
        stream.seek(0)
        stream.truncate()
        logger.info(message, extra={"event": SimpleNamespace(name=event) if event else None, **extra})
        return stream.getvalue().rstrip("\n")

    return said


def job(log, jobid: int, title: str | None) -> None:
    assert log("much", "JOB_INFO", jobid=jobid, rule_msg=title, rule_name="fit") == ""


def test_a_job_is_a_line_once_it_has_ended(log):
    assert log("table", "RUN_INFO", stats={"split": 1, "fit": 11, "total": 12}) == "12 jobs: 1 split, 11 fit"
    job(log, 7, "poem on toy")
    job(log, 8, None)
    for number, (jobid, title) in enumerate([(8, "fit"), (7, "poem on toy")], start=1):
        assert log("Finished jobid", "JOB_FINISHED", job_id=jobid) == ""
        shown = log(None, "PROGRESS", done=number, total=12)
        assert shown.startswith(f" {number} of 12  0:0")
        assert shown.endswith(f"  {title}")


def test_routine_is_not_shown_and_the_rest_is(log):
    for hidden in ("Select jobs to execute...", "Execute 1 jobs...", "RuleException:\nCalledProcessError in file x"):
        assert log(hidden) == ""
    assert log("header", "WORKFLOW_STARTED") == ""
    for shown in ("Nothing to be done", "RuleException:\nNameError in file x"):
        assert log(shown) == f"plain: {shown}"


def test_a_job_that_fails_is_named_with_what_it_says(log, tmp_path):
    (tmp_path / "fit.log").write_text("drcrm fit: log.npz: no such file\n")
    job(log, 7, "poem on toy")
    error = {"event": "JOB_ERROR", "jobid": 7, "rule_name": "fit"}
    assert log("x", log=[f"{tmp_path}/fit.log"], **error) == "failed: poem on toy\ndrcrm fit: log.npz: no such file"
    assert log("x", log=[f"{tmp_path}/none"], **error).endswith(f"(there is no {tmp_path}/none)")


def test_jobs_that_a_stop_ends_have_not_failed(log):
    assert log("Terminating processes on user request, this might take some time.").startswith("stopped on request: ")
    assert log("x", "JOB_ERROR", jobid=7, rule_name="fit", log=[]) == ""
    assert log("WorkflowError:\nAt least one job did not complete successfully.") == ""
    assert log("Complete log(s): x") == "plain: Complete log(s): x"


def test_folders_that_cannot_be_written_to_are_named(tmp_path, monkeypatch):
    assert screen.unusable(f"{tmp_path}/none") == screen.unusable(f"{tmp_path}") == ""
    monkeypatch.setattr(screen.shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    assert screen.unusable(f"{tmp_path}") == f"{tmp_path}: no space left on device"
    monkeypatch.setattr(screen.os, "access", lambda path, mode: False)
    assert screen.unusable(f"{tmp_path}") == f"{tmp_path}: cannot be written to"


def test_the_headline_is_the_first_table_with_its_columns_aligned(tmp_path):
    table = "Losses.\n\n|  | toy |\n| --- | --- |\n| π0 | 1.2 |\n| CIPS | **0.9** |\n\nOthers.\n\n| a |\n"
    (tmp_path / "table.md").write_text(table)
    assert screen.headline(tmp_path / "table.md") == "Losses.\n\n      toy\nπ0    1.2\nCIPS  **0.9**"


def test_a_report_is_removed_once_what_it_shows_is_made_anew(tmp_path):
    report, table, none = (tmp_path / name for name in ("report.html", "table.csv", "none.csv"))
    screen.remove_if_older(report, [table])
    for path, time in ((table, 100), (report, 200)):
        path.touch()
        os.utime(path, (time, time))
    screen.remove_if_older(report, [table, none])
    assert report.exists()
    os.utime(table, (300, 300))
    screen.remove_if_older(report, [table, none])
    assert not report.exists()


def test_whether_a_command_succeeds(capfd):
    commands = ["true"], ["ls", "/none"], ["no-such-command"]
    assert [screen.succeeds(*command) for command in commands] == [True, False, False]
    assert capfd.readouterr() == ("", "")
