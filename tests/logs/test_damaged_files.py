"""Logs of every file format, valid, nearly valid or damaged: read with the right costs, or refused in one line."""

import bz2
import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import dsjson, read_contexts, vw_lists, vw_single
from fixtures.user_input import ODD_TEXTS, damaged, examples, result_or_message
from hypothesis import given
from hypothesis import strategies as st

import drcrm
from drcrm.logs.policy_file import encoding_of

COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age"], "categorical": ["city"]},
}
COLUMNS = {
    "item": st.sampled_from(["a", "b", "1"]),
    "p": st.sampled_from([0.5, 1.0, 0.25, 1e-6]),
    "click": st.sampled_from([0, 1, 2.5, -1]),
    "age": st.sampled_from([0, 1.5, -3, 1e6, None]),
    "city": st.sampled_from(["Bern", "Zürich", "東京", ""]),
}
ODD_ARRAYS = [[], [0.5], [-1], ["a"], [[1, 0]], [math.nan], 3, 10**12, [10**9]]
ODD_MAPPING_VALUES = [None, 3, [], {}, "city", "p", ",", ";", {"time": ["city"]}]

FileAndCosts = tuple[str, bytes, list[float]]  # the name's extension, the content, and the costs of its rows


def repeated(elements: st.SearchStrategy, n: int) -> st.SearchStrategy:
    return st.lists(elements, min_size=n, max_size=n)


@st.composite
def tables(draw, spoilt: bool) -> tuple[pd.DataFrame, list[float]]:
    """Draw a table with the columns of ``MAPPING``, and its costs; a spoilt one has an odd cell or lacks a column."""
    n = draw(st.integers(1, 8))
    columns = {name: draw(repeated(values, n)) for name, values in COLUMNS.items()}
    columns["age"][0] = 0  # so that the column is numeric
    costs = [-value for value in columns["click"]]
    if spoilt:
        columns[draw(st.sampled_from([*columns]))][draw(st.integers(0, n - 1))] = draw(st.none() | ODD_TEXTS)
        if draw(st.integers(0, 4)) == 4:
            del columns[draw(st.sampled_from([*columns]))]
    return pd.DataFrame(columns), costs


@st.composite
def csv_files(draw, spoilt: bool) -> FileAndCosts:
    table, costs = draw(tables(spoilt))
    separator, decimal = draw(st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", ",")]))
    text = table.to_csv(index=draw(st.booleans()), sep=separator, decimal=decimal)
    return "csv", text.encode("utf-8", "surrogatepass"), costs


@st.composite
def parquet_files(draw, spoilt: bool) -> FileAndCosts:
    table, costs = draw(tables(spoilt))
    mixed = [name for name in table if table[name].map(type).nunique() > 1]
    table[mixed] = table[mixed].map(str)
    stream = io.BytesIO()
    table.to_parquet(stream, compression=draw(st.sampled_from(["snappy", None, "gzip"])))
    return "parquet", stream.getvalue(), costs


@st.composite
def npz_files(draw, spoilt: bool) -> FileAndCosts:
    """Draw an npz log with our names of its arrays, or those of Open Bandit Pipeline."""
    costs = draw(st.lists(st.sampled_from([0.0, -1.0, 2.0]), min_size=1, max_size=6))
    n = len(costs)
    actions = draw(repeated(st.integers(0, 2), n))
    arrays = {"X": np.ones((n, 2)), "Y": actions, "propensity": np.full(n, 0.5), "cost": costs}
    if draw(st.booleans()):
        context, action, propensity, cost = arrays.values()
        arrays = {"context": context, "action": action, "pscore": propensity, "reward": -np.array(cost)}
    if spoilt:
        name = draw(st.sampled_from([*arrays, "context", "count", "starts", "n_actions", "position"]))
        odd = draw(st.sampled_from(ODD_ARRAYS))
        arrays[name] = odd * n if isinstance(odd, list) else odd
        if draw(st.integers(0, 2)) == 2:
            del arrays[draw(st.sampled_from([*arrays]))]
    stream = io.BytesIO()
    np.savez(stream, **{name: np.array(array) for name, array in arrays.items()})
    return "npz", stream.getvalue(), costs


def text_files(extension: str, make: Callable[[int, int], str]) -> Callable:
    """Return a strategy of random logs in a format of Vowpal Wabbit; a spoilt log has an odd line."""

    @st.composite
    def files(draw, spoilt: bool) -> FileAndCosts:
        lines = make(draw(st.integers(1, 6)), draw(st.integers(0, 99))).split("\n")
        if spoilt:
            number, odd = draw(st.integers(0, len(lines) - 1)), draw(ODD_TEXTS)
            lines[number] = draw(st.sampled_from([odd, lines[number] + odd, odd + lines[number], ""]))
        return extension, "\n".join(lines).encode("utf-8", "surrogatepass"), []

    return files


FORMATS = {"csv": csv_files, "parquet": parquet_files, "npz": npz_files, "dsjson": text_files("dsjson", dsjson)}
FORMATS |= {"lists": text_files("vw", vw_lists), "single": text_files("vw", vw_single)}
every_format = pytest.mark.parametrize("files", FORMATS.values(), ids=FORMATS)


@pytest.fixture(scope="module")
def read(tmp_path_factory) -> Callable:
    """Return a function that writes a log, reads it, and checks what was read."""
    folder = tmp_path_factory.mktemp("logs")

    def write_and_read(extension: str, content: bytes, mapping: object, compression: str = ""):
        path = folder / f"log.{extension}{compression}"
        path.write_bytes(COMPRESSIONS[compression](content))
        log, message = result_or_message(drcrm.read_log, path, mapping)
        if log is not None:
            check_log(log, path)
        return log, message

    return write_and_read


def check_log(log: object, path: Path) -> None:
    """Check that the numbers are finite, and that the contexts for predictions are those that were learned from."""
    assert np.isfinite(log.cost).all()
    assert (log.propensity > 0).all()
    encoding = encoding_of(json.loads(json.dumps(log.encoding.as_dict())))
    contexts, _ = result_or_message(read_contexts, path, encoding)
    if contexts is None:
        assert len(log.skipped)
        return
    X, unseen = contexts
    features, learned = (getattr(matrix, "features", matrix) for matrix in (X, log.X))
    assert len(log.skipped) or not unseen
    assert features.shape[1] == learned.shape[1] == encoding.n_features
    assert features.shape != learned.shape or not abs(features - learned).max() > 0


@every_format
@examples(20)
@given(data=st.data())
def test_a_valid_file_is_read_with_its_costs(read, files, data):
    extension, content, costs = data.draw(files(spoilt=False))
    is_text = extension in ("csv", "dsjson", "vw")
    compression = data.draw(st.sampled_from([*COMPRESSIONS])) if is_text else ""
    log, message = read(extension, content, MAPPING if files in (csv_files, parquet_files) else None, compression)
    if costs:
        assert log is not None, message
        assert log.cost.tolist() == costs


@every_format
@examples(20)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(read, files, data):
    is_spoilt = data.draw(st.booleans())
    extension, content, _ = data.draw(files(is_spoilt))
    if not is_spoilt:
        content = data.draw(damaged(content))
    read(extension, content, MAPPING if files in (csv_files, parquet_files) else None)


@examples(20)
@given(csv_files(False), st.data())
def test_a_mapping_with_an_odd_value_is_accepted_or_refused_in_one_line(read, file, data):
    keys = [*MAPPING, "slice", "group", "split", "time", "delimiter", "decimal", "odd"]
    odd = MAPPING | {data.draw(st.sampled_from(keys)): data.draw(st.sampled_from(ODD_MAPPING_VALUES))}
    read(*file[:2], data.draw(st.sampled_from([odd, None]) | ODD_TEXTS))
