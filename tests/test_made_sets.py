"""The made sets are read back from their files exactly, in the shapes that their experiments state."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse

from drcrm.experiments.datasets.source_formats import DatasetSpec, load

ROOT = Path(__file__).parent.parent
EXPERIMENTS = ("made", "unseen", "unseen_sharp")
DATASETS = {
    name: of
    for each in EXPERIMENTS
    for name, of in yaml.safe_load((ROOT / f"docs/{each}.yaml").read_text())["datasets"].items()
}
MADE = runpy.run_path(str(ROOT / "studies/made_sets.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    MADE["main"](path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
def test_files_are_read_back_exactly(folder, name):
    of = DATASETS[name]
    spec = DatasetSpec(of["features"], range(of["labels"]), rows=tuple(of["rows"]))
    parts = load(spec, *([folder / file for file in of[part]] for part in ("train", "test")))
    X, labels = MADE["make"](MADE["SHAPES"][name])
    read = np.vstack([sparse.csr_array(X).toarray() for X, _ in parts])
    np.testing.assert_array_equal(read, X.toarray())
    np.testing.assert_array_equal(np.vstack([labels for _, labels in parts]), labels)
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1, atol=1e-5)


def test_every_set_is_in_an_experiment():
    assert list(MADE["SHAPES"]) == list(DATASETS)
