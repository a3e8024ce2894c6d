"""The steps that draw figures: of an experiment, its overview, and of the theory."""

import pytest
from step_chain import AXES, error_of, plan_of, run_step

from drcrm.files import read_csv, write_npz
from drcrm.reports.roles import LEMMA_COLUMNS


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
    plan = plan_of(datasets=[dataset], counts=[1], translations={dataset: [1, 3]})
    outputs = {"figures": [tmp_path / f"figure{suffix}"]}
    assert message in error_of(capsys, "figure", inputs, outputs, {"figure": "replay_count", "plan": plan})


@pytest.fixture
def train(labelled, tmp_path):
    X, labels = labelled(n=60, labels=3)
    write_npz(tmp_path / "train.npz", X=X, labels=labels)
    return tmp_path / "train.npz"


def tabulate(train, output, seed: int = 0) -> int:
    parameters = {**AXES, "seed": seed, "lemma": "lemma3", "repetitions": 1}
    return run_step("theory_table", {"train": train}, {"table": output}, parameters)


def test_a_lemma_is_tabulated_with_the_same_bytes_for_the_same_seed_and_drawn(train, tmp_path, capsys):
    tables = [tmp_path / f"{number}.csv" for number in range(3)]
    for table, seed in zip(tables, (0, 0, 1), strict=True):
        assert tabulate(train, table, seed) == 0
    first, second, third = (table.read_bytes() for table in tables)
    assert first == second != third
    assert list(read_csv(tables[0], [])) == LEMMA_COLUMNS["lemma3"]
    outputs = {"figures": [tmp_path / "a.svg"]}
    assert run_step("theory_figure", {"table": tables[0]}, outputs, {"figure": "penalty"}) == 0
    assert (tmp_path / "a.svg").exists()
    error = error_of(capsys, "theory_figure", {"table": tables[0]}, outputs, {"figure": "duality"})
    assert error.startswith(f"{tables[0]}: no column 'temperature'")
