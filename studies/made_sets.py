"""Write synthetic multi-label data sets: python studies/made_sets.py FOLDER

They were not used to design any algorithm.

scikit-learn's make_multilabel_classification draws documents of random length, their labels, and words from a mixture
of the labels. Rows have unit norm, like those of Yeast and RCV1, and six digits, so that a text file stores them
exactly. `docs/made.yaml` is the experiment on the first three sets. The others were drawn after the design was settled,
for `docs/unseen.yaml` and `docs/unseen_sharp.yaml`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_multilabel_classification
from sklearn.preprocessing import normalize

from drcrm.files import atomic


@dataclass(frozen=True)
class Shape:
    """Numbers of features, labels and rows of a data set, and the mean numbers of labels and words per row."""

    features: int
    labels: int
    train: int
    test: int
    mean_labels: int
    mean_words: int
    seed: int


SHAPES = {
    "made_small": Shape(features=20, labels=5, train=1000, test=1000, mean_labels=2, mean_words=50, seed=1),
    "made_many": Shape(features=100, labels=12, train=3000, test=1500, mean_labels=3, mean_words=100, seed=2),
    "made_sparse": Shape(features=300, labels=8, train=2000, test=1000, mean_labels=2, mean_words=40, seed=3),
    "unseen_few": Shape(features=40, labels=6, train=1200, test=1000, mean_labels=2, mean_words=60, seed=101),
    "unseen_many": Shape(features=150, labels=15, train=2000, test=1000, mean_labels=4, mean_words=120, seed=102),
    "unseen_certain": Shape(features=60, labels=8, train=1500, test=1000, mean_labels=3, mean_words=80, seed=103),
}


def make(shape: Shape) -> tuple[sparse.csr_array, np.ndarray]:
    """Return the features and labels of all rows, training rows first."""
    words, labels = make_multilabel_classification(
        n_samples=shape.train + shape.test,
        n_features=shape.features,
        n_classes=shape.labels,
        n_labels=shape.mean_labels,
        length=shape.mean_words,
        random_state=shape.seed,
    )
    return sparse.csr_array(np.round(normalize(words), 6)), labels


def main(folder: Path) -> None:
    for name, shape in SHAPES.items():
        X, labels = make(shape)
        for part, rows in {"train": slice(shape.train), "test": slice(shape.train, None)}.items():
            with atomic(folder / f"{name}_{part}.svm") as path:
                dump_svmlight_file(X[rows], labels[rows], str(path), zero_based=False, multilabel=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
