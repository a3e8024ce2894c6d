"""Steps that write tables, figures, the first page of the report, and provenance."""

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from fixtures.pipeline import error_of, plan_of, run_step

CONFIG = {"experiment": {"seeds": 2, "name": "ε"}, "datasets": {"toy": {"labels": 3}}, "algorithms": {}}


def test_figures_are_files_of_the_named_formats_without_a_date(drawn):
    begins = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r\n"}
    for name in ("grid", "overview"):
        for kind, begin in begins.items():
            content = (drawn / f"{name}.{kind}").read_bytes()
            assert content.startswith(begin)
            assert b"CreationDate" not in content
            assert b"dc:date" not in content
    assert "<svg" in (drawn / "summary.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("dataset", "suffix", "message"),
    [
        ("top", ".pdf", "no run with dataset 'top', selection 'ips'"),
        ("toy", ".docx", "the name of a figure must end in .pdf, .svg or .png"),
    ],
)
def test_figures_without_runs_or_in_another_format_are_an_error(toy, tmp_path, capsys, dataset, suffix, message):
    inputs = {"metrics": toy / "metrics.csv", "grids": toy / "grids.csv"}
    plan = plan_of(datasets=[dataset], counts=[1])
    outputs = {"figures": [tmp_path / f"figure{suffix}"], "latex": tmp_path / "figure.tex"}
    assert message in error_of(capsys, "figure", inputs, outputs, {**plan, "figure": "replay_count"})


def make_tables(metrics, folder, plan: dict) -> int:
    outputs = {"tables": [folder / "tables/expected_loss.csv"], "pages": folder / "pages", "more": folder / "more"}
    return run_step("tables", {"metrics": metrics}, outputs, plan)


def test_collect_keeps_every_digit(toy):
    parts = [(toy / f"replay{count}/metrics.csv").read_text().splitlines() for count in (1, 4)]
    assert (toy / "metrics.csv").read_text().splitlines() == parts[0] + parts[1][1:]


def test_an_experiment_without_the_papers_data_and_poem_has_no_empty_tables(toy, tmp_path):
    """Tables of an earlier configuration are removed."""
    (tmp_path / "tables").mkdir()
    for name, kind in product(("paper_comparison", "average_ranks", "differences_to_cips"), ("csv", "md", "tex")):
        (tmp_path / f"tables/{name}.{kind}").write_text("old")
    assert make_tables(toy / "metrics.csv", tmp_path, plan_of()) == 0
    written = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert written == {"expected_loss", "greedy_loss", "hyperparameters"}
    pages = " ".join(path.name for path in (tmp_path / "pages").iterdir())
    assert "paper" not in pages
    assert "POEM" not in pages


def test_collect_refuses_another_table(toy, tmp_path, capsys):
    for header in ("dataset,seed\ntoy,0\n", (toy / "replay4/grids.csv").read_text()):
        (tmp_path / "a.csv").write_text(header)
        runs = [toy / "replay4/metrics.csv", tmp_path / "a.csv"]
        error = error_of(capsys, "collect", {"runs": runs}, {"table": tmp_path / "metrics.csv"})
        assert error.startswith(f"{tmp_path / 'a.csv'}: no column ")


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
