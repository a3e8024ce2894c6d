"""Damaged files and mirrors: truncated, overwritten and swapped files, and servers that do not send a file."""

import hashlib
import random
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pooch
import pytest
from fixtures.pipeline import copied, run_step, serving, write_config, write_data

from drcrm.paper import sources
from drcrm.paper.steps.__main__ import main
from faults import CONFIG, FIT, FOLDER, assert_same_files, run, single_line

RUN = "results/tiny/runs/toy/seed0"
LOG, METRICS, ALL_METRICS = f"{FOLDER}/log.npz", f"{FOLDER}/metrics.csv", "results/tiny/metrics.csv"
# File → step that reads it.
READERS = {
    "resources/toy/train.npz": "split",
    "resources/toy/test.npz": "evaluate",
    f"{RUN}/split.npz": "log_crf",
    f"{RUN}/logging.npz": "replay",
    f"{RUN}/skyline.npz": "evaluate",
    LOG: "fit",
    FIT: "evaluate",
    METRICS: "collect",
    ALL_METRICS: "tables",
}


def noise(content: bytes, share: float) -> bytes:
    """Replace 48 bytes, at this share of the content, by random bytes."""
    start = int(share * (len(content) - 48))
    return content[:start] + random.Random(0).randbytes(48) + content[start + 48 :]


DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "cut": lambda content: content[:-7],
    "html": lambda content: b"<html>no such file</html>\n",
    "zeros": lambda content: bytes(len(content)),
    **{f"noise {share}": lambda content, share=share: noise(content, share) for share in (0, 0.5, 1)},
}


@pytest.fixture(scope="module")
def work(finished, tmp_path_factory) -> Path:
    """A copy of the finished run, in which a test damages a file and restores it."""
    return copied(finished, tmp_path_factory.mktemp("damaged") / "work")


@pytest.fixture(scope="module")
def commands(work, config) -> dict[str, tuple]:
    """The arguments of each step in the workflow, with only one of the fits."""
    output = run(work, config, "--dry-run", "--forceall", "--printshellcmds")
    steps = re.findall(r"python -P -m drcrm\.paper\.steps \w+\.(\w+) .*", output)
    lines = re.findall(r"python -P -m drcrm\.paper\.steps (.*) 2> ", output)
    return {step: shlex.split(line) for step, line in zip(steps, lines, strict=True)}


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """Replace the content of a file inside the block."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_step_names_a_damaged_input(work, commands, finished, monkeypatch, capsys, name, damage):
    """The step reports the file in one line and keeps its results. Noise in unused bytes may pass."""
    monkeypatch.chdir(work)
    step = READERS[name]
    with replaced(work / name, DAMAGE[damage]((work / name).read_bytes())):
        status = main(commands[step])
    message = capsys.readouterr().err
    if status:
        assert message.startswith(f"drcrm {step}: {name}: ")
        assert message.count("\n") == 1
    else:
        assert damage.startswith("noise")
    assert_same_files(work, finished)


@pytest.mark.parametrize(("name", "wrong"), [(FIT, LOG), (LOG, FIT), (ALL_METRICS, f"{FOLDER}/grids.csv")])
def test_a_step_names_an_input_with_the_content_of_another_file(work, commands, monkeypatch, capsys, name, wrong):
    monkeypatch.chdir(work)
    with replaced(work / name, (work / wrong).read_bytes()):
        assert main(commands[READERS[name]]) == 1
    assert name in capsys.readouterr().err


def test_metrics_without_their_last_row_are_reported(work, commands, monkeypatch, capsys):
    """The file looks like a complete file of fewer runs, but the tables know which runs are required."""
    monkeypatch.chdir(work)
    rows = (work / ALL_METRICS).read_bytes().splitlines(keepends=True)
    with replaced(work / ALL_METRICS, b"".join(rows[:-1])):
        assert main(commands["tables"]) == 1
    assert capsys.readouterr().err.startswith(f"drcrm tables: {ALL_METRICS}: ")


NAMES = ("train.svm", "test.svm")


def serve(handler: BaseHTTPRequestHandler, content: bytes, length: int | None = None) -> None:
    """Answer with a content. ``length`` replaces its true length in the header."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


def half(handler, content: bytes) -> None:
    serve(handler, content[: len(content) // 2], len(content))
    handler.close_connection = True


def stalled(handler, content: bytes) -> None:
    serve(handler, content[:100], len(content))
    handler.wfile.flush()
    time.sleep(1)
    handler.wfile.write(content[100:])


ANSWERS = {
    "404": lambda handler, content: handler.send_error(404),
    "half": half,
    "html": lambda handler, content: serve(handler, b"<html><body>Please log in.</body></html>\n"),
    "nothing": lambda handler, content: serve(handler, b""),
    "stalled": stalled,
    "no answer": lambda handler, content: setattr(handler, "close_connection", True),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, bytes]:
    """File name → content."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return {name: (folder / name).read_bytes() for name in NAMES}


@pytest.fixture
def server(data):
    """A server of the files on 127.0.0.1. Its ``answer``, unless it is None, replaces the ordinary answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = data[self.path.rsplit("/", 1)[1]]
            (self.server.answer or serve)(self, content)

        def log_message(self, *arguments):
            pass

    with serving(Handler) as http:
        http.answer = None
        yield http


@pytest.fixture
def quick(monkeypatch):
    """Shorten the timeout, and all pauses of this process to half a second, which is longer than the timeout."""
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.5)))
    monkeypatch.setattr(sources, "TIMEOUT", 0.3)


def fetch(folder: Path, mirror: str, sha256: dict | None = None) -> int:
    entry = {"train": [NAMES[0]], "test": [NAMES[1]], "features": 3, "labels": 3, "rows": [40, 20]}
    entry |= {"actions": "labels", "drop_repeats": False, "sha256": sha256 or {}}
    outputs = {name: f"{folder}/{name}.npz" for name in ("train", "test")}
    return run_step("fetch", {"mirror": mirror}, outputs, entry)


def assert_fetch_succeeds(folder: Path, mirror: str, finished: Path, sha256: dict | None = None) -> None:
    """Check that the same command writes the files of an undisturbed run."""
    assert fetch(folder, mirror, sha256) == 0
    for name in ("train.npz", "test.npz"):
        assert (folder / name).read_bytes() == (finished / "resources/toy" / name).read_bytes()
    assert sorted(path.name for path in (folder / "raw").iterdir()) == sorted(NAMES)


def digests(data) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in data.items()}


@pytest.mark.parametrize(
    ("kind", "has_digests"),
    [*((kind, False) for kind in ANSWERS), ("html", True)],
)
def test_fetch_reports_a_failed_download_and_succeeds_later(
    server, data, finished, quick, tmp_path, capsys, kind, has_digests
):
    """The message is one line and names the file. No part of the file remains."""
    sha256 = digests(data) if has_digests else {}
    server.answer = ANSWERS[kind]
    assert fetch(tmp_path, server.url, sha256) == 1
    messages = [text for text in capsys.readouterr().err.splitlines() if text.startswith("drcrm")]
    assert len(messages) == 1
    assert "train.svm: " in messages[0]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "test.svm"]
    server.answer = None
    assert_fetch_succeeds(tmp_path, server.url, finished, sha256)


@pytest.mark.parametrize(
    ("kind", "has_digests"),
    [("half", False), ("swapped", False), ("line lost", False), ("end lost", True), ("another digit", True)],
)
def test_fetch_reports_a_wrong_file_of_a_mirror_and_succeeds_later(data, finished, tmp_path, capsys, kind, has_digests):
    (mirror := tmp_path / "mirror").mkdir()
    (folder := tmp_path / "work").mkdir()
    content = data["train.svm"]
    wrong = {
        "half": content[: len(content) // 2],
        "end lost": content[:-20],
        "swapped": data["test.svm"],
        "another digit": content.replace(b"1:0.", b"1:1.", 1),
        "line lost": b"".join(content.splitlines(keepends=True)[:-1]),
    }
    for name, file_content in (data | {"train.svm": wrong[kind]}).items():
        (mirror / name).write_bytes(file_content)
    sha256 = digests(data) if has_digests else {}
    assert fetch(folder, str(mirror), sha256) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "train.svm: " in message
    assert not list(folder.rglob("*.npz"))
    (mirror / "train.svm").write_bytes(content)
    assert_fetch_succeeds(folder, str(mirror), finished, sha256)


def test_a_run_resumes_after_a_fault_of_its_mirror(server, finished, tmp_path):
    config = write_config(tmp_path, {**CONFIG, "mirror": server.url})
    (work := tmp_path / "work").mkdir()
    server.answer = ANSWERS["half"]
    single_line(run(work, config, fails=True), "drcrm fetch: train.svm: could not be fetched: ")
    assert not list(work.rglob("*.npz"))
    server.answer = None
    run(work, config)
    assert_same_files(work, finished)
