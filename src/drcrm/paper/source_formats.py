"""Load and scale data sets: LibSVM text files, which a strict reader checks, ARFF files, and scikit-learn's digits."""

import bz2
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features, check_features
from drcrm.errors import InputError, prefix_errors, refuse_errors

DENSE_FROM = 0.25  # a data set is stored dense if at least this share of its features is not 0
Contexts = tuple[np.ndarray | sparse.csr_array, np.ndarray]
SCALES = ("none", "max_abs", "standard")


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
    indices into ``spec.labels``. An InputError names the file, the line, the invalid value and the expected one.
    """
    from sklearn.datasets import load_svmlight_file

    with prefix_errors(path), refuse_errors("cannot be read"):
        if ".arff" in Path(path).suffixes:
            with _open(path) as stream:
                X, tuples = _read_arff(stream, spec)
        else:
            try:
                with _open(path) as stream:
                    X, tuples = load_svmlight_file(stream, n_features=spec.features, multilabel=True, zero_based=False)
            except (ValueError, OverflowError) as error:
                raise InputError(_first_fault(path, spec) or str(error)) from None
        X = sparse.csr_array(X)
        flat = [label for labels in tuples for label in labels]
        if spec.single and [*spec.labels] == [0, 1] and -1 in flat and 0 not in flat:
            spec = replace(spec, labels=[-1, 1])  # LibSVM's ids of two classes
        one_each = not spec.single or all(len(labels) == 1 for labels in tuples)
        fit = one_each and all(_fits(label, spec) for label in flat)
        if not (np.isfinite(X.data).all() and X.has_canonical_format and fit):
            raise InputError(_first_fault(path, spec) or "cannot be used")
        if X.shape[0] == 0:
            raise InputError("no rows")
        X.eliminate_zeros()
        column = {label: index for index, label in enumerate(spec.labels)}
        if spec.single:
            return X, np.array([column[label] for label in flat])
        labels = np.zeros((X.shape[0], len(column)), dtype=np.uint8)
        for row, present in enumerate(tuples):
            derived = (label for label, ids in spec.derived_labels.items() if not set(ids).isdisjoint(present))
            labels[row, [column[label] for label in (*present, *derived) if label in column]] = 1
        return X, labels


def _read_arff(stream: BinaryIO, spec: DatasetSpec) -> tuple[sparse.csr_array, list[tuple[int, ...]]]:
    """Return the features of an ARFF file, and the ids of the labels of each row: the columns after the features."""
    n_columns, is_header, rows = 0, True, []
    for number, line in enumerate(stream, start=1):
        text = line.decode(errors="replace").strip()
        if is_header:
            n_columns += text.lower().startswith("@attribute")
            is_header = not text.lower().startswith("@data")
        elif text and not text.startswith("%"):
            try:
                if text.startswith("{"):
                    pairs = (pair.split() for pair in text.strip("{}").split(",") if pair.strip())
                    rows.append({int(column): float(value.strip("'\"")) for column, value in pairs})
                else:
                    values = [float(value.strip(" '\"")) for value in text.split(",")]
                    rows.append({column: value for column, value in enumerate(values) if value})
                    if len(values) != n_columns:
                        raise ValueError
                if not all(0 <= column < n_columns and math.isfinite(value) for column, value in rows[-1].items()):
                    raise ValueError
            except ValueError:
                form = f"{n_columns} numbers, or {{column value, …}} with columns from 0"
                raise InputError(f"line {number}: malformed: {text[:60]!r}, expected {form}") from None
    if n_columns <= spec.features:
        raise InputError(f"{n_columns} attributes, expected {spec.features} features and then the labels")
    starts = np.cumsum([0, *map(len, rows)])
    columns, values = (np.array([entry for row in rows for entry in part(row)]) for part in (dict.keys, dict.values))
    table = sparse.csr_array((values, columns.astype(int), starts), shape=(len(rows), n_columns))
    table.sort_indices()
    labels = table[:, spec.features :]
    if not np.isin(labels.data, (0, 1)).all():
        raise InputError("a label is neither 0 nor 1")
    labels.eliminate_zeros()
    return table[:, : spec.features], [tuple(map(int, ids)) for ids in np.split(labels.indices, labels.indptr[1:-1])]


def first_occurrences(parts: Sequence[sparse.csr_array]) -> list[np.ndarray]:
    """Return, for each part, the rows whose features occur neither earlier in the part nor in an earlier part."""
    import pandas as pd

    keys = [
        X.indices[a:b].tobytes() + X.data[a:b].tobytes()
        for X in parts
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    is_first = np.split(~pd.Series(keys).duplicated().to_numpy(), np.cumsum([X.shape[0] for X in parts[:-1]]))
    return [np.flatnonzero(part) for part in is_first]


def _fits(label: float, spec: DatasetSpec) -> bool:
    """Return whether a label is allowed: an id to keep or, if other ids are dropped, any whole number from 0."""
    return label in spec.labels or (spec.drop_other_labels and label >= 0 and label.is_integer())


def _first_fault(path: str | Path, spec: DatasetSpec) -> str | None:
    """Return the error of the first line that cannot be used."""
    with _open(path) as stream:
        faults = ((number, _fault_of(line, spec)) for number, line in enumerate(stream, start=1))
        return next((f"line {number}: {fault}" for number, fault in faults if fault), None)


def _fault_of(line: bytes, spec: DatasetSpec) -> str | None:
    """Return what is wrong with a line of LibSVM's format; None for nothing."""
    tokens = line.split(b"#", 1)[0].split()
    labels = [] if not tokens or b":" in tokens[0] else tokens.pop(0).split(b",")
    try:
        for token in labels:
            if not _fits(float(token), spec):
                return f"label {token.decode()} is out of range, expected {spec.ids}"
        if spec.single and (tokens or labels) and len(labels) != 1:
            return f"{len(labels) or 'no'} labels, expected exactly one"
        last = 0
        for token in tokens:
            index, value = token.split(b":")
            if not 1 <= int(index) <= spec.features:
                return f"feature {int(index)} is out of range, expected 1 to {spec.features}"
            if int(index) <= last:
                return f"feature {int(index)} follows feature {last}, expected rising indices"
            if not math.isfinite(float(value)):
                return f"feature {int(index)} is {value.decode()}, expected a finite number"
            last = int(index)
    except ValueError:
        text = line.decode(errors="replace").strip()
        text = text if len(text) <= 60 else text[:60] + "…"
        return f"malformed: {text!r}, expected {'label' if spec.single else 'label,label'} index:value …"
    return None


def _open(path: str | Path) -> BinaryIO:
    """Open a file, decompressed if its name ends in .gz or .bz2."""
    if Path(path).suffix == ".bz2":
        return io.BytesIO(_unpacked(Path(path).read_bytes()))
    return (gzip.open if Path(path).suffix == ".gz" else open)(path, "rb")


def _unpacked(packed: bytes) -> bytes:
    """Decompress bz2 streams one after another. ``bz2.open`` would ignore damaged bytes after the first stream."""
    parts = []
    while packed or not parts:
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
