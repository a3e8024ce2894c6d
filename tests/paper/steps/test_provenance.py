"""The record of what results come from."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from fixtures.pipeline import run_step

CONFIG = {"experiment": {"seeds": 2, "name": "ε"}, "datasets": {"toy": {"labels": 3}}, "algorithms": {}}


def git(folder: Path, *command: object) -> None:
    identity = "-c", "user.name=me", "-c", "user.email=me@localhost"
    subprocess.run(["git", "-C", folder, *identity, *command], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path) -> Path:
    """A git repository with one commit."""
    if not shutil.which("git"):
        pytest.skip("git is needed")
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "code.py").write_text("")
    for command in (["init"], ["add", "."], ["commit", "--message", "first"]):
        git(folder, *command)
    return folder


def record(project: Path, config: dict = CONFIG) -> dict:
    """Run the step twice, check that it writes the same bytes, and return the record."""
    path, texts = project.parent / "provenance.json", set()
    for _ in range(2):
        assert run_step("provenance", {"project": project}, {"provenance": path}, config) == 0
        texts.add(path.read_text(encoding="utf-8"))
    [text] = texts
    assert str(project) not in text
    return json.loads(text)


def test_has_the_commit_and_whether_anything_changed_since(repository):
    [head] = (repository / ".git/refs/heads").glob("*")
    written = record(repository)
    assert (written["commit"], written["clean"]) == (head.read_text().strip(), True)
    (repository / "more.py").write_text("")
    untracked = {**written, "clean": False, "untracked": ["more.py"]}
    assert record(repository) == untracked
    (repository / "code.py").write_text("1")
    assert record(repository) == {**untracked, "changed": ["code.py"]}


def test_has_no_commit_without_git_or_a_repository_of_the_project(repository, monkeypatch):
    (repository / "inner").mkdir()
    written = record(repository / "inner")
    assert (written["commit"], written["clean"]) == (None, None)
    monkeypatch.setenv("PATH", "")
    assert record(repository) == written


def test_digest_of_the_configuration_does_not_depend_on_its_order(tmp_path):
    written = record(tmp_path)
    assert written["options"] == CONFIG["experiment"]
    assert record(tmp_path, dict(reversed(CONFIG.items()))) == written
    for kind in CONFIG:
        changed = record(tmp_path, {**CONFIG, kind: {"changed": 1}})
        assert changed["config"] != written["config"]
        assert (changed["options"] != written["options"]) == (kind == "experiment")
