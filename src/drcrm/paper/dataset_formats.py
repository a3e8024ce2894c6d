"""Data sets in text files (LibSVM, ARFF), CSV and npz files, and scikit-learn's digits: load and scale them."""

import bz2
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import first_equal_rows
from drcrm.arrays.validation import Features, check_actions, check_features
from drcrm.errors import InputError, prefix_errors, refuse_errors
from drcrm.files import read_npz
from drcrm.paper.sources import is_table

DENSE_FROM = 0.25  # a data set is stored dense if at least this share of its features is not 0
Contexts = tuple[np.ndarray | sparse.csr_array, np.ndarray]
SCALES = ("none", "max_abs", "standard")
TEST_SHARE = 0.25  # of the rows of a data set without a test file


@dataclass(frozen=True)
class DatasetSpec:
    """What a data set must contain.

    Attributes
    ----------
    features : int
        Number of features.
    labels : sequence of int
        Label ids to keep, in the order of the label columns, or of the actions if ``single``.
    drop_other_labels : bool
        Whether other ids are dropped. Otherwise they are an error.
    derived_labels : mapping from int to sequence of int
        Ids by the id of a label that a row also has if it has one of them.
    rows : (int, int), optional
        Numbers of rows of the training and of the test files.
    nonzeros : (int, int), optional
        Numbers of features that are not 0 in the training and in the test files.
    positives : (sequence of int, sequence of int), optional
        Numbers of rows with each label in the training and in the test files.
    drop_repeats : bool
        Whether only the first of several rows with equal features is kept.
    single : bool
        Whether a row has exactly one label, its class.
    """

    features: int
    labels: Sequence[int]
    drop_other_labels: bool = False
    derived_labels: Mapping[int, Sequence[int]] = field(default_factory=dict)
    rows: tuple[int, int] | None = None
    nonzeros: tuple[int, int] | None = None
    positives: tuple[Sequence[int], Sequence[int]] | None = None
    drop_repeats: bool = False
    single: bool = False

    @property
    def ids(self) -> str:
        """The expected ids, in words."""
        low, high = min(self.labels), max(self.labels)
        if self.single and high - low >= len(self.labels):
            return f"one of {', '.join(map(str, self.labels))}"
        return f"{low} to {high}"


def load(spec: DatasetSpec, train: Sequence[Path], test: Sequence[Path]) -> tuple[Contexts, Contexts]:
    """Read the files of a data set and check all of their content.

    Returns (X, labels) of the training part and of the test part. X is an array or CSR matrix (n, features), labels is
    an array (n, q) of 0 and 1. If ``single``, labels (n,) are indices into ``spec.labels``. With ``drop_repeats``, only
    the first of several rows with equal features is kept, across both parts.

    Raises
    ------
    InputError
        For an invalid entry, with its file and line, for a wrong number of rows, and for a class that only test files
        have.
    """
    parts = []
    for number, (role, paths) in enumerate((("training", train), ("test", test))):
        read = [read_file(path, spec) for path in paths]
        X = sparse.csr_array(sparse.vstack([X for X, _ in read], format="csr"))
        labels = np.concatenate([labels for _, labels in read])
        if spec.single and parts:
            _check_classes(spec, parts[0][1], train, [labels for _, labels in read], test)
        positives = np.bincount(labels) if spec.single else labels.sum(axis=0, dtype=int)
        for name, value, expected in (
            ("rows", len(labels), spec.rows),
            ("features that are not 0", X.nnz, spec.nonzeros),
            ("rows with each label", positives.tolist(), spec.positives),
        ):
            if expected and value != expected[number]:
                raise InputError(f"{paths[0]}: {name} of the {role} part: {value}, expected {expected[number]}")
        parts.append((X, labels))
    (X, labels), (X_test, labels_test) = parts
    if not (spec.single or labels.any()):
        raise InputError(f"{train[0]}: no positive label in the training part, expected at least one")
    if spec.drop_repeats:
        keep, keep_test = first_occurrences([X, X_test])
        if not len(keep_test):
            raise InputError(f"{test[0]}: every row of the test part repeats one of the training part")
        X, labels, X_test, labels_test = X[keep], labels[keep], X_test[keep_test], labels_test[keep_test]
    if X.nnz >= DENSE_FROM * X.shape[0] * X.shape[1]:
        X, X_test = X.toarray(), X_test.toarray()
    return (X, labels), (X_test, labels_test)


def _check_classes(
    spec: DatasetSpec, known: np.ndarray, train: Sequence[Path], tested: Sequence[np.ndarray], test: Sequence[Path]
) -> None:
    """Raise InputError if a test file has a class that no training file has."""
    for path, classes in zip(test, tested, strict=True):
        if len(lacking := np.setdiff1d(classes, known)):
            files = ", ".join(map(str, train))
            raise InputError(f"{path}: class {spec.labels[lacking[0]]} is in no training file ({files})")


def load_digits(single: bool = False) -> tuple[Contexts, Contexts]:
    """Return the digits of scikit-learn with features divided by 16. Rows 0 to 1346 are the training part.

    The ten classes become ten labels. With ``single`` the labels are the classes themselves, (n,).
    """
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    X, labels = X / 16, digit if single else (digit[:, None] == np.arange(10)).astype(np.uint8)
    return (X[:1347], labels[:1347]), (X[1347:], labels[1347:])


def read_file(path: str | Path, spec: DatasetSpec) -> tuple[sparse.csr_array, np.ndarray]:
    """Read a file of MULAN's ARFF format if its name has ``.arff``, otherwise of LibSVM's; plain, bz2 or gz.

    A line of LibSVM's format is ``label,label index:value …``, with indices from 1. An ARFF file has the features, then
    the labels, as dense or sparse rows.

    Returns X, a CSR matrix (n, features), and the labels, an array (n, q) of 0 and 1. If ``single``, labels (n,) are
    indices into ``spec.labels``. An InputError names the file, the line and the fault.
    """
    with prefix_errors(path), refuse_errors("cannot be read"):
        content = _unpacked(Path(path))
        if ".arff" in Path(path).suffixes:
            content = _as_libsvm(content, spec.features)
        try:
            X, ids = _read_rows(content, spec)
        except InputError:
            for number, line in enumerate(content.split(b"\n"), start=1):
                with prefix_errors(f"line {number}, {line.decode(errors='replace')[:60]!r}"):
                    _read_rows(line, spec)
            raise
        if X.shape[0] == 0:
            raise InputError("no rows")
        labels = np.zeros((X.shape[0], len(spec.labels)), dtype=np.uint8)
        for row, present in enumerate(ids):
            derived = (label for label, sources in spec.derived_labels.items() if not set(sources).isdisjoint(present))
            labels[row] = np.isin(spec.labels, [*present, *derived])
        return X, labels.argmax(axis=1) if spec.single else labels


def _read_rows(content: bytes, spec: DatasetSpec) -> tuple[sparse.csr_array, list[tuple[float, ...]]]:
    """Return the features of rows in LibSVM's format, and the ids of the labels of each row; InputError for a fault."""
    from sklearn.datasets import load_svmlight_file

    with refuse_errors("malformed"):
        options = {"n_features": spec.features, "multilabel": True, "zero_based": False}
        X, ids = load_svmlight_file(io.BytesIO(content), **options)
    X = sparse.csr_array(X)
    if not np.isfinite(X.data).all():
        raise InputError("features must be finite numbers")
    X.eliminate_zeros()
    if spec.single and any(len(labels) != 1 for labels in ids):
        raise InputError("a row must have exactly one label")
    flat = {label for labels in ids for label in labels}
    if spec.single and [*spec.labels] == [0, 1] and -1 in flat and 0 not in flat:  # LibSVM's ids of two classes
        ids = [tuple(max(label, 0) for label in labels) for labels in ids]
        flat = flat - {-1}
    is_allowed = {label: spec.drop_other_labels and label >= 0 and label.is_integer() for label in flat}
    if wrong := [label for label in sorted(flat) if not (label in spec.labels or is_allowed[label])]:
        raise InputError(f"label {wrong[0]:g} is out of range, expected {spec.ids}")
    return X, ids


def _as_libsvm(content: bytes, n_features: int) -> bytes:
    """Return an ARFF file in LibSVM's format. Each line stays a line; those of the header become empty."""
    converted, n_columns, is_header = [], 0, True
    for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
        text = line.strip()
        if is_header or not text or text.startswith("%"):
            n_columns += text.lower().startswith("@attribute")
            is_header = is_header and not text.lower().startswith("@data")
            converted.append("")
            continue
        with prefix_errors(f"line {number}"), refuse_errors("malformed"):
            converted.append(_row_as_libsvm(text, n_features, n_columns))
    if n_columns <= n_features:
        raise InputError(f"{n_columns} attributes, expected {n_features} features and then the labels")
    return "\n".join(converted).encode()


def _row_as_libsvm(text: str, n_features: int, n_columns: int) -> str:
    """Return a row of an ARFF file in LibSVM's format."""
    if text.startswith("{"):
        cells = {int(column): value for column, value in (cell.split() for cell in text.strip("{}").split(",") if cell)}
    else:
        cells = dict(enumerate(text.split(",")))
        if len(cells) != n_columns:
            raise InputError(f"{len(cells)} values, expected {n_columns}")
    values = {column: float(value.strip(" '\"")) for column, value in sorted(cells.items())}
    labels = {column - n_features: value for column, value in values.items() if column >= n_features}
    if not {*labels.values()} <= {0, 1}:
        raise InputError("a label is neither 0 nor 1")
    present = ",".join(str(label) for label, value in labels.items() if value)
    # The feature 1:0 keeps a row without labels and features.
    features = {0: 0.0} | {column: value for column, value in values.items() if column < n_features and value}
    return " ".join([present, *(f"{column + 1}:{value!r}" for column, value in features.items())])


def first_occurrences(parts: Sequence[sparse.csr_array]) -> list[np.ndarray]:
    """Return, for each part, the rows whose features occur neither earlier in the part nor in an earlier part."""
    first = first_equal_rows(sparse.csr_array(sparse.vstack(parts, format="csr")))
    is_first = np.split(first == np.arange(len(first)), np.cumsum([X.shape[0] for X in parts[:-1]]))
    return [np.flatnonzero(part) for part in is_first]


def _unpacked(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in .gz or .bz2."""
    if path.suffix != ".bz2":
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
            return stream.read()
    packed, parts = path.read_bytes(), []
    while packed or not parts:  # bz2.open would ignore damaged bytes after the first stream
        stream = bz2.BZ2Decompressor()
        parts.append(stream.decompress(packed))
        if not stream.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        packed = stream.unused_data
    return b"".join(parts)


def scaled(kind: str, X: Features, X_test: Features) -> tuple[Features, Features]:
    """Return the features of the training part (n, d) and the test part (m, d) on a common scale.

    Only the training part determines the scale.

    - ``none``: unchanged
    - ``max_abs``: x / max |x|, which keeps zeros
    - ``standard``: (x − mean) / standard deviation (divisor n), only for dense features

    A feature whose divisor would be 0 is not divided. Raise InputError for "standard" with a CSR matrix, and if the
    scaled test part exceeds the range of floating-point numbers.
    """
    if kind == "none":
        return X, X_test
    if kind == "standard" and sparse.issparse(X):
        raise InputError("scale must be max_abs or none for a sparse data set, got standard, which does not keep zeros")
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler  # a slow import

    scaler = MaxAbsScaler() if kind == "max_abs" else StandardScaler()
    with np.errstate(over="ignore"):
        return scaler.fit_transform(X), check_features(scaler.transform(X_test))


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
            import pandas as pd  # imported here, and below: slow, and text files do not need it

            frame = _checked_frame(pd.read_csv(path), label_columns)
            labels = frame[[*label_columns]].to_numpy()
            features = frame.drop(columns=[*label_columns])
            X, names = check_features(features.to_numpy(dtype=float)), [*features]
            labels = labels[:, 0] if single else labels
    with prefix_errors(path):
        if single and np.ndim(labels) != 1:
            raise InputError(f"labels has shape {labels.shape}, expected (n,), the class of each row")
        return X, labels if single else check_actions(labels, name="labels"), names


def _checked_frame(frame: Any, label_columns: Sequence[str]) -> Any:
    """Return a table; InputError if a label is missing, a cell is empty, or a feature is text."""
    import pandas as pd

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
