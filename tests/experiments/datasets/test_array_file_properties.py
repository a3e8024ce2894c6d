"""The npz logs of the pipeline with spoilt arrays or damaged bytes: read as numpy reads them or refused in one line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from strategies import damaged, examples, fit_arguments, result_or_message, spoilt_mappings

from drcrm.experiments.datasets.array_files import read_log

ROWS = ("propensity", "cost", "context", "train", "heldout")


@st.composite
def logs(draw) -> dict[str, np.ndarray]:
    """Draw the arrays of a log file, with the number of times that each row occurs in its two parts."""
    log = draw(fit_arguments())
    n = len(log["Y"])
    parts = {name: draw(arrays(int, n, elements=st.integers(0, 3))) for name in ("train", "heldout")}
    parts["train"][0] = parts["heldout"][-1] = 1
    log["context"] = log.get("context", np.arange(n))
    return {name: log[name] for name in ("X", "Y", "propensity", "cost", "context")} | parts


def pack(content: dict[str, np.ndarray]) -> bytes:
    """Return the bytes of an npz file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in content.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return stream.getvalue()


def is_readable(packed: bytes, content: dict[str, np.ndarray]) -> bool:
    """Return whether numpy reads all arrays of a file completely, with their checksums and shapes."""
    try:
        with np.load(io.BytesIO(packed)) as archive:
            return archive.zip.testzip() is None and all(archive[name].shape == content[name].shape for name in content)
    except Exception:
        return False


def finite_numbers(content: dict, name: str, ndim: int) -> np.ndarray | None:
    """Return an array as floats, or None if it is missing, empty, not numeric, not finite or has other dimensions."""
    array = np.asarray(content.get(name))
    if array.dtype.kind not in "biuf" or array.ndim != ndim or array.size == 0:
        return None
    with np.errstate(over="ignore"):
        array = array.astype(float)
    return array if np.isfinite(array).all() else None


def is_log(content: dict[str, np.ndarray]) -> bool:
    """Return whether arrays are a log by its definition."""
    X, Y = finite_numbers(content, "X", 2), finite_numbers(content, "Y", 2)
    rows = [finite_numbers(content, name, 1) for name in ROWS]
    if X is None or Y is None or any(values is None or len(values) != len(Y) for values in rows):
        return False
    propensity, cost, context, *counts = rows
    dtype = content["cost"].dtype
    has_wrapped = dtype.kind == "u" and (cost > np.iinfo(dtype).max // 2).any()  # a negative cost cast to unsigned
    return (
        not has_wrapped
        and {*Y.ravel()} <= {0, 1}
        and bool(((propensity > 0) & (propensity <= 1)).all())
        and {*context} <= {*range(len(X))}
        and all((count % 1 == 0).all() and (count >= 0).all() and 0 < count.sum() < 2**53 for count in counts)
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("arrays") / "a.npz"


@examples(60)
@given(st.data(), logs())
def test_a_log_file_is_read_exactly_if_its_arrays_are_a_log(path, data, valid):
    content = data.draw(st.one_of(st.just(valid), spoilt_mappings(valid)))
    assume(np.ndim(content.get("Y", 0)) != 1)  # a log of one action of K
    packed = data.draw(st.one_of(st.just(pack(content)), damaged(pack(content))))
    path.write_bytes(packed)
    parts, message = result_or_message(read_log, path)
    assert (parts is not None) == (is_readable(packed, content) and is_log(content)), message
    if parts is None:
        assert message.startswith(str(path))
        return
    for part, name in zip(parts, ("train", "heldout"), strict=True):
        kept = content[name] > 0
        assert np.array_equal(part.X[part.context], content["X"][content["context"][kept].astype(int)])
        assert np.array_equal(part.count, content[name][kept])
        for column in ("Y", "propensity", "cost"):
            assert np.array_equal(getattr(part, column), content[column][kept])
