"""Steps that write tables, figures, the first page of the report, and provenance."""

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import error_of, plan_of, run_step
from scipy import stats

CONFIG = {"experiment": {"seeds": 2, "name": "ε"}, "datasets": {"toy": {"labels": 3}}, "algorithms": {}}


def test_figures_are_files_of_the_named_formats_without_a_date(toy):
    begins = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r\n"}
    for name in ("grid", "overview"):
        for kind, begin in begins.items():
            content = (toy / f"{name}.{kind}").read_bytes()
            assert content.startswith(begin)
            assert b"CreationDate" not in content
            assert b"dc:date" not in content
    assert "<svg" in (toy / "summary.rst").read_text(encoding="utf-8")


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


def test_differences_to_poem_are_paired_by_seed(metrics, tmp_path):
    """scipy gives the same p-values. Data sets that only the replay-count figure shows come last."""
    rng, poem = np.random.default_rng(0), metrics.replace({"algorithm": {"kl_dro": "poem"}})
    runs = [poem.assign(dataset=name, seed=seed) for name in ("a", "b", "c") for seed in range(3)]
    losses = pd.concat(runs, ignore_index=True)
    losses["expected_loss"] += 0.1 * rng.normal(size=len(losses))
    losses.to_csv(tmp_path / "metrics.csv", index=False)
    assert make_tables(tmp_path / "metrics.csv", tmp_path, plan_of(datasets=["c", "a"], seeds=3)) == 0
    table = pd.read_csv(tmp_path / "tables/differences_to_poem.csv")
    order = list(dict.fromkeys(zip(table["dataset"], table["replay_count"], strict=True)))
    assert order == [(name, count) for name in ("c", "a", "b") for count in (1, 4)]
    keys = ["dataset", "replay_count", "selection", "algorithm"]
    by_run = losses.set_index([*keys, "seed"]).sort_index()["expected_loss"]
    rows = table[table["metric"] == "expected_loss"].set_index(keys)
    assert set(rows.index) == {(*key, "ips", name) for key in order for name in ("cips", "dr")}
    for (*run, algorithm), row in rows.iterrows():
        ours, theirs = by_run[*run, algorithm], by_run[*run, "poem"]
        p_value = stats.ttest_rel(ours, theirs, alternative="greater").pvalue
        assert (row["p_larger"], row["p_smaller"]) == pytest.approx((p_value, 1 - p_value))
        assert (row["difference"], row["n_seeds"]) == (pytest.approx((ours - theirs).mean()), 3)
    means = pd.read_csv(tmp_path / "tables/expected_loss.csv").set_index(["dataset", "algorithm"])
    expected = losses[losses["selection"].eq("ips") & losses["replay_count"].eq(4)]
    expected = expected.groupby(["dataset", "algorithm"])["expected_loss"]
    np.testing.assert_allclose(means["mean"], expected.mean()[means.index])
    np.testing.assert_allclose(means["standard_error"], expected.sem()[means.index])
    assert (means["n_seeds"] == 3).all()


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "not a readable csv file (No columns to parse from file)"),
        (b"\xff\xfe\x00\x81", "not a readable csv file ("),
        (b"dataset,seed\ntoy,0\n", "no column 'replay_count', expected dataset, replay_count, seed, "),
    ],
)
@pytest.mark.parametrize("step", ["tables", "figure"])
def test_metrics_that_cannot_be_read_are_an_error(tmp_path, capsys, step, content, message):
    path = tmp_path / "metrics.csv"
    if content is not None:
        path.write_bytes(content)
    parameters = plan_of(figure="grid")
    outputs = {"figures": [tmp_path / "a.pdf"], "tables": [tmp_path / "a.csv"], "pages": tmp_path / "pages"}
    outputs |= {"latex": tmp_path / "a.tex", "more": tmp_path / "more"}
    error = error_of(capsys, step, {"metrics": path, "grids": path}, outputs, parameters)
    assert error.startswith(f"{path}: {message}")


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
