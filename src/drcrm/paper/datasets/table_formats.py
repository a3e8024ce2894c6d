"""Data sets in CSV and npz files: features as numbers, labels in named columns or in an array."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.arrays.validation import Features, check_actions, check_features
from drcrm.errors import InputError, prefix_errors, refuse_errors
from drcrm.files import read_npz
from drcrm.paper.datasets.source_formats import Contexts
from drcrm.paper.datasets.sources import is_table

TEST_SHARE = 0.25  # of the rows of a data set without a test file


def load_tables(
    paths: Sequence[Path], label_columns: Sequence[str], single: bool
) -> tuple[Contexts, Contexts, np.ndarray | None]:
    """Read a training file and a test file; without the latter, a random quarter of the rows is the test part.

    A CSV file has a header. ``label_columns`` are its labels, of 0 and 1, or its class. An npz file has the arrays X
    (n, d), and labels (n, q) or (n,). Classes are numbers or texts.

    Returns
    -------
    (array, labels), (array, labels), classes
        Both parts, and the sorted classes of the training part. If ``single``, labels (n,) are indices of classes;
        otherwise they are an array (n, q) of 0 and 1, and classes is None.

    Raises
    ------
    InputError
        For missing values, text in features, columns that are missing or have another order, labels other than 0 and
        1, and classes that only the test part has.
    """
    parts = [_read_table(path, label_columns, single) for path in paths]
    if len(parts) == 1:
        [(X, labels, names)] = parts
        order = np.random.default_rng(0).permutation(len(labels))
        n_test = max(1, round(TEST_SHARE * len(labels)))
        parts = [(X[rows], labels[rows], names) for rows in (np.sort(order[n_test:]), np.sort(order[:n_test]))]
    (X, labels, names), (X_test, labels_test, names_test) = parts
    if names != names_test:
        raise InputError(f"{paths[-1]}: the features must be those of {paths[0]}, {names}, got {names_test}")
    if not single:
        return (X, labels), (X_test, labels_test), None
    classes, labels = np.unique(labels, return_inverse=True)
    if len(unknown := np.setdiff1d(labels_test, classes)):
        raise InputError(f"{paths[-1]}: class {unknown[0]!r} is in no row of the training part; set test_path")
    return (X, labels), (X_test, np.searchsorted(classes, labels_test)), classes


def _read_table(path: Path, label_columns: Sequence[str], single: bool) -> tuple[Features, np.ndarray, Any]:
    """Return features, labels, and the names of the features or their number."""
    if is_table(path, ".npz"):
        arrays = read_npz(path, ["X", "labels"])
        with prefix_errors(path):
            X, labels = check_features(arrays["X"]), arrays["labels"]
            names: Any = X.shape[1]
            if len(labels) != X.shape[0]:
                raise InputError(f"labels has {len(labels)} rows, X has {X.shape[0]}")
    else:
        with prefix_errors(path), refuse_errors("cannot be read"):
            frame = _checked_frame(pd.read_csv(path), label_columns)
            labels = frame[[*label_columns]].to_numpy()
            features = frame.drop(columns=[*label_columns])
            X, names = check_features(features.to_numpy(dtype=float)), [*features]
            labels = labels[:, 0] if single else labels
    with prefix_errors(path):
        if single and np.ndim(labels) != 1:
            raise InputError(f"labels has shape {labels.shape}, expected (n,), the class of each row")
        return X, labels if single else check_actions(labels, name="labels"), names


def _checked_frame(frame: pd.DataFrame, label_columns: Sequence[str]) -> pd.DataFrame:
    """Return a table; InputError if a label is missing, a cell is empty, or a feature is text."""
    if missing := [name for name in label_columns if name not in frame]:
        raise InputError(f"no column {missing[0]!r} for label_columns (columns: {', '.join(map(str, frame))})")
    for name, column in frame.items():
        if (is_empty := column.isna()).any():
            line = int(is_empty.argmax()) + 2
            raise InputError(f"column {name!r} has no value in line {line}; fill it in, or remove the row")
        if name not in label_columns and not pd.api.types.is_numeric_dtype(column):
            line = int(pd.to_numeric(column, errors="coerce").isna().argmax()) + 2
            raise InputError(
                f"column {name!r} must have numbers, got {column[line - 2]!r} in line {line}; encode each category as "
                "a column of 0 and 1"
            )
    return frame
