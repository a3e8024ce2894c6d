"""Files of policies, and files of logs with damaged content: the same content, or one line of error."""

import bz2
import gzip
import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import dsjson, read_contexts, vw_lists, vw_single
from fixtures.user_input import ODD_TEXTS, damaged, examples, result_or_message
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomTreesEmbedding

import drcrm
from drcrm.cost_models.missing_cells import MissingCells
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import InputError
from drcrm.files import read_npz
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.logs.encoding.base import ArrayEncoding
from drcrm.logs.policy_file import StoredPolicy, encoding_of, read_policy, write_policy
from drcrm.mapping.log_mapping import as_mapping
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.policies.stored_policies import to_bytes

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture(params=[{"nystroem": 8}, RandomTreesEmbedding(3, random_state=0)], ids=str)
def file(request, tmp_path):
    """Return the path of a file with a mapped policy, and the policy."""
    features = FeatureMap(as_transformer(request.param), X)
    coef = np.random.default_rng(1).normal(size=(3 + features.n_mapped, 2))
    policy, model = SoftmaxPolicy(coef, features=features), CostModel()
    model.coef_, model.intercept_ = -coef, np.zeros(2)
    logging_policy = SoftmaxPolicy(2 * coef).with_exploration(0.2)
    model = SupportedModel(model, LoggingPolicy(logging_policy, 0.5), (-1.0, 0.0)).with_features(features)
    write_policy(tmp_path / "p.npz", StoredPolicy(policy, ArrayEncoding("single", [0, 1], 3), model, {}))
    return tmp_path / "p.npz", policy


def test_a_mapped_policy_comes_back(file):
    path, policy = file
    stored = read_policy(path)
    np.testing.assert_array_equal(stored.policy.marginals(X), policy.marginals(X))
    logging_policy = SoftmaxPolicy(2 * policy.coef, features=policy.features).with_exploration(0.2)
    np.testing.assert_array_equal(stored.model.logging.policy.marginals(X), logging_policy.marginals(X))


def test_a_file_with_damaged_bytes_is_refused_with_its_name(file):
    """One bit of each array is changed, or the end of the file is missing."""
    path, _ = file
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        starts = [member.header_offset for member in archive.infolist()] + [archive.start_dir]
    places = [end - 2 for end in starts[1:]]
    damaged = [content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :] for place in places]
    assert len(places) == 7
    for change in (*damaged, *(content[:cut] for cut in (0, 100, len(content) // 2, len(content) - 1))):
        path.write_bytes(change)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: "):
            read_policy(path)


def test_arrays_of_other_shapes_or_kinds_are_refused(file):
    path, policy = file
    arrays = read_npz(path, [*np.load(path)])
    wrong_shapes = [name for name in arrays if arrays[name].ndim and name != "features"]
    assert len(wrong_shapes) == 5
    other_map = to_bytes(policy.features.transformer, "map")
    for name, change, message in (
        *((name, arrays[name][:-1], rf"{name.split('.')[-1]} has shape") for name in wrong_shapes),
        ("coef", np.array([{}]), "not a readable npz file"),
        ("features", np.zeros(9, dtype=np.uint8), "the feature map is damaged"),
        ("features", other_map, "the feature map is of type"),
        ("header", np.array(str(arrays["header"]).replace("encoding", "coding")), "truncated or from another version"),
    ):
        np.savez(path, **(arrays | {name: change}))
        with pytest.raises(InputError, match=message):
            read_policy(path)


def test_the_number_of_candidates_depends_on_the_outcome_and_the_confidence():
    rail = {"cost": "returned", "at_most": 0.01}
    content = {
        "action": "a",
        "reward": "click",
        "guardrails": {"returned": rail, "paid": {"reward": "paid", "at_least": 0}},
    }
    header = {"mapping": content, "choices": 40, "confidence": 0.95, "effective_choices": 3}
    numbers = {"effective_numbers": [[0.95, 3], [0.99, 5]], "guardrail_numbers": {"returned": [[0.95, 13]]}}
    policy = SoftmaxPolicy(np.zeros((3, 2)))
    stored, earlier = (StoredPolicy(policy, None, None, content) for content in (header | numbers, header))

    def levels(stored, **changes):
        numbers = stored.numbers(as_mapping(content | changes))
        rails = {name: rail.at(0.95) for name, rail in numbers.of_guardrails.items()}
        return [numbers.main.at(level) for level in (0.9, 0.95, 0.96, 0.999)], rails

    assert levels(stored) == ([3, 3, 5, 40], {"returned": 13, "paid": 40})
    assert levels(earlier) == ([3, 3, 40, 40], {"returned": 40, "paid": 40})
    assert levels(stored, reward="spent") == ([40] * 4, {"returned": 13, "paid": 40})
    wider = {"returned": rail | {"at_most": 0.02}}
    assert levels(stored, guardrails=wider)[1] == {"returned": 13}
    for other in (rail | {"at_most": "2 %"}, rail | {"cost": "refunded"}):
        assert levels(stored, guardrails={"returned": other})[1] == {}
    for wrong in (
        {"effective_choices": 0.01},
        {"effective_numbers": [[0.95, 41]]},
        {"guardrail_numbers": {"returned": 2}},
    ):
        with pytest.raises(InputError, match="from 1 to the number of candidates, 40"):
            levels(StoredPolicy(policy, None, None, header | wrong))


def test_cells_without_actions_are_read_back(tmp_path):
    cells = MissingCells(np.array([1]), np.array([[-np.inf, 0.2, -np.inf]]), np.array([[np.inf, 0.5, np.inf]]))
    policy, encoding = SoftmaxPolicy(np.eye(3)[:, :2]), ArrayEncoding("single", [0, 1], 3)
    for stored in (cells, None):  # files of earlier versions have none
        write_policy(tmp_path / "p.npz", StoredPolicy(policy, encoding, None, {}, cells=stored))
        read = read_policy(tmp_path / "p.npz").cells
        assert (read is None) == (stored is None)
        if stored is not None:
            for name, array in vars(stored).items():
                np.testing.assert_array_equal(getattr(read, name), array)
    write_policy(
        tmp_path / "p.npz", StoredPolicy(policy, encoding, None, {}, cells=replace(cells, low=np.zeros((1, 2))))
    )
    with pytest.raises(InputError, match="cells without actions"):
        read_policy(tmp_path / "p.npz")


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
