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


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("arrays") / "a.npz"


@examples(60)
@given(st.data(), logs())
def test_a_log_file_is_read_as_written_or_refused_in_one_line(path, data, valid):
    content = data.draw(st.one_of(st.just(valid), spoilt_mappings(valid)))
    assume(np.ndim(content.get("Y", 0)) != 1)  # a log of one action of K
    packed = pack(content)
    path.write_bytes(data.draw(st.one_of(st.just(packed), damaged(packed))))
    parts, message = result_or_message(read_log, path)
    if parts is None:
        assert message.startswith(str(path))
        assert content is not valid or path.read_bytes() != packed
        return
    for part, name in zip(parts, ("train", "heldout"), strict=True):
        kept = content[name] > 0
        assert np.array_equal(part.X[part.context], content["X"][content["context"][kept].astype(int)])
        assert np.array_equal(part.count, content[name][kept])
        assert {*part.Y.ravel()} <= {0, 1}
        assert ((part.propensity > 0) & (part.propensity <= 1)).all()
        for column in ("Y", "propensity", "cost"):
            assert np.array_equal(getattr(part, column), content[column][kept])
