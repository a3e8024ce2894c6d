"""The synthetic data sets of studies/made_sets.py are read back from their files exactly, in their stated shapes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse

from drcrm.experiments.datasets.source_formats import DatasetSpec, load

ROOT = Path(__file__).parent.parent
FILES = [ROOT / f"docs/{name}.yaml" for name in ("made", "unseen", "unseen_sharp")]
CONFIGURATIONS = [yaml.safe_load(path.read_text()) for path in FILES]
DATASETS = {name: settings for config in CONFIGURATIONS for name, settings in config["datasets"].items()}
STUDY = runpy.run_path(str(ROOT / "studies/made_sets.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("synthetic")
    STUDY["main"](path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
def test_files_are_read_back_exactly(folder, name):
    settings = DATASETS[name]
    spec = DatasetSpec(settings["features"], range(settings["labels"]), rows=tuple(settings["rows"]))
    parts = load(spec, *([folder / file for file in settings[part]] for part in ("train", "test")))
    X, labels = STUDY["make"](STUDY["SHAPES"][name])
    read = np.vstack([sparse.csr_array(part).toarray() for part, _ in parts])
    np.testing.assert_array_equal(read, X.toarray())
    np.testing.assert_array_equal(np.vstack([part for _, part in parts]), labels)
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1, atol=1e-5)


def test_every_synthetic_set_is_in_an_experiment():
    assert list(STUDY["SHAPES"]) == list(DATASETS)
