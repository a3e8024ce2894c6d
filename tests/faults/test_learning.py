"""``drcrm learn`` on a full disk or killed: it leaves complete files or no files."""

import json
import subprocess
import sys
import time

import pytest
from fixtures.user_logs import MAPPING, decisions

from faults.test_disks import mounted


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    decisions(800).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def command(log, folder) -> list[str]:
    options = ["--output", folder / "policy.npz", "--json", folder / "answer.json", "--report", folder / "report.html"]
    return [sys.executable, "-m", "drcrm", "learn", str(log), "--config", json.dumps(MAPPING), *map(str, options)]


def test_learn_reports_a_full_disk_and_leaves_no_files(log, tmp_path):
    (folder := tmp_path / "full").mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        (folder / "ballast").write_bytes(b"0" * 60_000)
        done = subprocess.run(command(log, folder), capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("drcrm learn: [Errno 28] No space left on device")
        assert done.stderr.count("\n") == 1
        assert [path.name for path in folder.iterdir()] == ["ballast"]


@pytest.mark.parametrize("seconds", [0.5, 2, 3])
def test_a_killed_learn_leaves_complete_files(log, tmp_path, seconds):
    """Files under their final names are complete, and a second run replaces them."""
    learning = subprocess.Popen(command(log, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    learning.kill()
    learning.wait()
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".part-")}
    assert names <= {"policy.npz", "answer.json", "report.html"}
    if "answer.json" in names:
        assert json.loads((tmp_path / "answer.json").read_text())["command"] == "learn"
    subprocess.run(command(log, tmp_path), check=True, stdout=subprocess.DEVNULL)
    assert {"policy.npz", "answer.json", "report.html"} <= {path.name for path in tmp_path.iterdir()}
