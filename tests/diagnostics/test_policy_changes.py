"""What a policy changes: a rule is recovered, segments are counted again from the file, and contexts by hand."""

import numpy as np
import pandas as pd
import pytest
from diagnosed_logs import with_columns
from shop import NAMES, decisions

from drcrm import BanditLog
from drcrm.arrays.tables import Table
from drcrm.diagnostics.comparison.policy_changes import MAX_CHANGED, describe_changes
from drcrm.diagnostics.weight_checks import PolicyWeights
from drcrm.logs.encoding.tables import TableEncoding, table_features


def weights_of(log: BanditLog, mean: np.ndarray | None, logging_mean: np.ndarray) -> PolicyWeights:
    return PolicyWeights(log, np.zeros(0), np.zeros(0), mean, logging_mean, np.zeros(0))


def shop_log(n: int) -> tuple[BanditLog, pd.DataFrame]:
    frame = decisions(n)
    features = table_features(frame, ["age", "price"], ["city"])
    encoding = TableEncoding.fit(features, "single", NAMES.tolist())
    action = pd.Index(NAMES).get_indexer(frame["item"])
    log = BanditLog(encoding.encode(features), action, frame["p"], -frame["click"], n_actions=3)
    log.encoding = encoding
    return log, frame


def leaves(changes: dict, number: int = 0, path: tuple = ()):
    """Yield the conditions (feature, category, threshold, is left) and the segment of each leaf."""
    node = changes["tree"][number]
    if "left" not in node:
        yield path, changes["segments"][node["segment"]]
        return
    for side in ("left", "right"):
        condition = node["feature"], node["category"], node["threshold"], side == "left"
        yield from leaves(changes, node[side], (*path, condition))


def members(frame: pd.DataFrame, path: tuple) -> np.ndarray:
    """Return the rows of a file that a path selects."""
    inside = np.ones(len(frame), dtype=bool)
    for feature, category, threshold, is_left in path:
        meets = frame[feature] == category if category is not None else frame[feature] <= threshold
        inside &= meets.to_numpy() == is_left
    return inside


def test_a_rule_is_recovered_in_the_units_of_the_file():
    log, frame = shop_log(4000)
    is_news = ((frame["city"] == "Genf") & (frame["price"] > 30)).to_numpy()
    mean = np.where(is_news[:, None], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8])
    changes = describe_changes(weights_of(log, mean, np.full((4000, 3), 1 / 3)))
    assert changes["fidelity"] > 0.99
    found = {path: segment for path, segment in leaves(changes) if segment["shares"][0]["policy"] > 0.5}
    [(path, segment)] = found.items()
    assert {condition[0] for condition in path} == {"city", "price"}
    assert next(condition[2] for condition in path if condition[0] == "price") == pytest.approx(30, abs=0.5)
    assert segment["share"] == pytest.approx(is_news.mean(), abs=0.01)
    assert changes["actions"][0]["more"] == [changes["segments"].index(segment)]
    assert segment["shares"][0]["logging"] == pytest.approx((frame["item"] == "news")[is_news].mean(), abs=0.01)


def test_segments_are_those_of_the_file(answer, shop, tmp_path):
    arguments = shop / "policy.npz", shop / "later.parquet", "--report", tmp_path / "r.html"
    changes, frame = answer("certify", *arguments)[0]["changes"], decisions(2000, seed=1)
    parts = list(leaves(changes))
    assert len(parts) == len(changes["segments"]) > 3
    total = np.zeros(len(frame), dtype=int)
    for path, segment in parts:
        inside = members(frame, path)
        total += inside
        assert segment["rows"] == inside.sum()
        assert segment["share"] == pytest.approx(inside.mean())
        logged = [(frame["item"][inside] == action["action"]).mean() for action in changes["actions"]]
        assert [part["logging"] for part in segment["shares"]] == pytest.approx(logged)
        assert sum(part["policy"] for part in segment["shares"]) == pytest.approx(1)
    assert (total == 1).all()
    assert 0.3 < changes["fidelity"] <= 1
    policy = [action["policy"] for action in changes["actions"]]
    assert policy == pytest.approx(
        [sum(part["share"] * part["shares"][index]["policy"] for part in changes["segments"]) for index in range(3)]
    )
    for entry in changes["contexts"]:
        assert entry["before"] != entry["after"]
        assert min(entry["logging"], entry["policy"]) > 1 / 3 - 1e-9


def test_changed_contexts_are_the_surest():
    log, _ = shop_log(500)
    rng = np.random.default_rng(0)
    mean, logging_mean = (rng.dirichlet(np.full(3, 0.6), 500) for _ in range(2))
    rows = np.arange(500) + 1000
    log = log.replace(rows=Table(500, {"number": rows}))
    entries = describe_changes(weights_of(log, mean, logging_mean))["contexts"]
    sureness = np.minimum(mean.max(axis=1), logging_mean.max(axis=1))
    sureness[mean.argmax(axis=1) == logging_mean.argmax(axis=1)] = 0
    best = np.argsort(-sureness, kind="stable")[:MAX_CHANGED]
    assert [entry["row"] for entry in entries] == rows[best].tolist()
    for entry, place in zip(entries, best, strict=True):
        assert entry["after"] == NAMES[mean[place].argmax()]
        assert entry["before"] == NAMES[logging_mean[place].argmax()]
        assert (entry["policy"], entry["logging"]) == (mean[place].max(), logging_mean[place].max())
    assert describe_changes(weights_of(log, mean, mean))["contexts"] == []


def test_rows_of_a_context_have_its_first_row():
    log = BanditLog(np.eye(2), [0, 1, 1, 0], np.full(4, 0.5), np.zeros(4), context=[1, 1, 0, 0])
    log = with_columns(log, names=["a", "b"], number=np.array([7, 8, 9, 10]))
    mean = np.array([[0.9, 0.1], [0.2, 0.8]])
    entries = describe_changes(weights_of(log, mean, mean[::-1]))["contexts"]
    assert [(entry["row"], entry["before"], entry["after"]) for entry in entries] == [(9, "b", "a"), (7, "a", "b")]


def test_label_vectors_name_the_label_that_changed():
    log = BanditLog(np.ones((3, 1)), np.zeros((3, 2), dtype=int), np.full(3, 0.25), np.zeros(3))
    log = with_columns(log, names=["red", "blue"])
    mean = np.array([[0.9, 0.1], [0.4, 0.95], [0.3, 0.3]])
    logging_mean = np.array([[0.2, 0.2], [0.4, 0.3], [0.6, 0.9]])
    entries = describe_changes(weights_of(log, mean, logging_mean))["contexts"]
    assert [tuple(entry.values()) for entry in entries] == [
        (0, "not red", "red", 0.8, 0.9),
        (1, "not blue", "blue", 0.7, 0.95),
        (2, "blue", "not blue", 0.9, 0.7),
    ]
