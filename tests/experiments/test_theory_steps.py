"""The steps of the theory, by hand: the same bytes again, and what wrong input gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drcrm.__main__ import main
from drcrm.experiments.columns import LEMMA_COLUMNS
from drcrm.files import read_csv, write_npz


def run(*arguments: object) -> int:
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def tabulate(train: Path, output: Path, lemma: str = "lemma3", seed: int = 0, repetitions: int = 1) -> int:
    axes = "--dataset", "toy", "--seed", seed
    return run("theory", lemma, "--train", train, "--repetitions", repetitions, *axes, "--output", output)


@pytest.fixture
def train(labelled, tmp_path) -> Path:
    X, labels = labelled(n=60, labels=3)
    write_npz(tmp_path / "train.npz", X=X, labels=labels)
    return tmp_path / "train.npz"


def test_the_same_seed_gives_the_same_bytes(train, tmp_path):
    pictures = []
    for name in ("first", "second"):
        folder = tmp_path / name
        assert tabulate(train, folder / "lemma3.csv") == 0
        assert run("theory_figure", "penalty", "--table", folder / "lemma3.csv", "--output", folder / "a.svg") == 0
        pictures.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert pictures[0] == pictures[1]
    assert tabulate(train, tmp_path / "third.csv", seed=1) == 0
    assert (tmp_path / "third.csv").read_bytes() != pictures[0]["lemma3.csv"]
    assert list(read_csv(tmp_path / "third.csv", [])) == LEMMA_COLUMNS["lemma3"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"lemma": "lemma6"}, 2, "invalid choice: 'lemma6'"),
        ({"repetitions": 0}, 2, "argument --repetitions: 0 is less than 1"),
    ],
)
def test_wrong_arguments(train, tmp_path, capsys, arguments, status, message):
    assert tabulate(train, tmp_path / "table.csv", **arguments) == status
    assert message in capsys.readouterr().err
    assert not (tmp_path / "table.csv").exists()


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (30, 25, r"train.npz: 30 contexts with 2^25 actions each: expected at most 10000000 pairs in all"),
        (1, 3, "train.npz: 1 contexts, expected at least 2: one for each policy"),
    ],
)
def test_contexts_that_make_no_population(tmp_path, capsys, rows, labels, message):
    write_npz(tmp_path / "train.npz", X=np.ones((rows, 2)), labels=np.eye(rows, labels, dtype=np.uint8))
    assert tabulate(tmp_path / "train.npz", tmp_path / "table.csv") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(message)
    assert not (tmp_path / "table.csv").exists()


def test_a_table_of_another_lemma(train, tmp_path, capsys):
    assert tabulate(train, tmp_path / "lemma3.csv") == 0
    assert run("theory_figure", "duality", "--table", tmp_path / "lemma3.csv", "--output", tmp_path / "a.png") == 1
    assert "lemma3.csv: no column 'temperature'" in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()
