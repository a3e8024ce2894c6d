"""The command that writes tables and figures of the theory."""

import os

import pandas as pd
import pytest
import theory
from lemma_tables import LEMMA_COLUMNS

from drcrm.errors import InputError
from drcrm.files import write_npz


@pytest.fixture
def tabulate(labelled, tmp_path, monkeypatch):
    """Return a function that writes the table of lemma 3 for a seed, and returns its path."""
    monkeypatch.setattr("os.environ", dict(os.environ))  # the command sets threads
    X, labels = labelled(n=60, labels=3)
    write_npz(tmp_path / "train.npz", X=X, labels=labels)

    def run(seed: int, name: str):
        options = {"lemma": "lemma3", "dataset": "toy", "seed": seed, "repetitions": 1, "train": tmp_path / "train.npz"}
        path = tmp_path / name
        theory.main(["table", *(f"--{key}={value}" for key, value in options.items()), "--output", str(path)])
        return path

    return run


def test_a_lemma_is_tabulated_with_the_same_bytes_for_the_same_seed_and_drawn(tabulate, tmp_path):
    first, second, third = (tabulate(seed, name) for seed, name in ((0, "a.csv"), (0, "b.csv"), (1, "c.csv")))
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()
    assert list(pd.read_csv(first)) == LEMMA_COLUMNS["lemma3"]
    arguments = ["--table", str(first), "--output", str(tmp_path / "a.svg"), str(tmp_path / "a.png")]
    theory.main(["figure", "--figure", "penalty", *arguments])
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.csv: no column 'temperature'"):
        theory.main(["figure", "--figure", "duality", *arguments])
