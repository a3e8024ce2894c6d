"""Decisions of a learned policy in an application, and in the example of a web handler."""

import io
import json
import pickle
import warnings
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from examples.web_handler import make_application
from fixtures.served_policies import contexts, stored_policy
from fixtures.user_input import examples
from fixtures.user_logs import decisions
from hypothesis import given
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

import drcrm
from drcrm import ActionLists, ExponentialPolicy
from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.logs.encoding.base import ArrayEncoding
from drcrm.logs.encoding.tables import TableEncoding, table_features
from drcrm.logs.policy_file import StoredPolicy, encoding_of
from drcrm.logs.read_log import context_batches
from drcrm.logs.serving.served_policy import ServedPolicy
from drcrm.policies.base import MixturePolicy
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap

CONTEXT = {"age": 30, "price": 12.5, "city": "Bern", "id": 7, "at": "2024-05-01T13:45", "day": "2024-05-01"}
pytestmark = pytest.mark.filterwarnings("ignore:.*the policy has not seen it")
STORED = {kind: stored_policy(kind, scale=0.3) for kind in ("single", "labels")}


def probability_of(served: ServedPolicy, contexts: list[dict], actions: np.ndarray) -> np.ndarray:
    """Return the probabilities of actions, by the policy's own methods."""
    if served.encoding.kind == "single":
        actions = np.array([served.names.index(name) for name in actions])
    return np.exp(served.policy.log_prob(served._encode(contexts), actions))


@pytest.mark.parametrize("kind", ["single", "labels"])
@given(context=contexts())
@examples(20)
def test_one_context_is_decided_like_a_list_of_one(context, kind):
    served = ServedPolicy(STORED[kind])
    action, propensity = served.decide(context, random_state=3)
    [of_list], [in_list] = served.decide([context], random_state=3)
    assert action == (of_list if kind == "single" else dict(zip(served.names, of_list, strict=True)))
    assert propensity == pytest.approx(in_list, rel=1e-12, abs=1e-12)
    assert in_list == pytest.approx(probability_of(served, [context], np.array([of_list]))[0], rel=1e-12)


def test_a_feature_map_uses_one_thread_for_one_context():
    """scikit-learn's trees use OpenMP, whose threads take ten times as long for a single row."""
    used = []

    def record(X):
        used.append({library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"})
        return np.ones((X.shape[0], 1))

    X = ServedPolicy(STORED["single"])._encode([CONTEXT, CONTEXT])
    mapped = FeatureMap(FunctionTransformer(record, accept_sparse=True), X)
    served = ServedPolicy(
        replace(STORED["single"], policy=mapped.pull_back(mapped.pad_policy(STORED["single"].policy)))
    )
    with threadpool_limits(2, "openmp"):
        served.decide([CONTEXT, CONTEXT])
        served.decide(CONTEXT)
    assert used[-2:] == [{2}, {1}]


def test_a_mixture_decides_for_one_context():
    stored = STORED["single"]
    served = ServedPolicy(replace(stored, policy=MixturePolicy([stored.policy, stored.policy], [0.25, 0.75])))
    action, propensity = served.decide(CONTEXT, random_state=0)
    assert propensity == pytest.approx(probability_of(served, [CONTEXT], np.array([action]))[0], rel=1e-12)


def test_a_learned_policy_decides_for_a_frame_and_for_its_rows(shop):
    served, frame = drcrm.load_policy(shop / "policy.npz"), decisions(200, seed=2)
    frame.loc[3, "city"], frame.loc[5, "age"] = "Chur", np.nan
    actions, propensities = served.decide(frame, random_state=0)
    frame.to_csv(shop / "served.csv", index=False)
    [(X, *_)] = context_batches(shop / "served.csv", served.encoding, 1000)
    place = np.array([served.names.index(name) for name in actions])
    np.testing.assert_allclose(propensities, served.policy.marginals(X)[np.arange(200), place], rtol=1e-12)
    rows = frame.to_dict("records")
    of_rows, in_rows = served.decide(rows, random_state=0)
    assert of_rows.tolist() == actions.tolist()
    np.testing.assert_allclose(in_rows, propensities, rtol=1e-12)


def test_draws_without_a_seed_differ_and_a_forked_process_draws_anew():
    served = ServedPolicy(STORED["single"])
    assert len({served.decide(CONTEXT)[0] for _ in range(200)}) > 1
    generator, served._process = served._rng, -1  # like in a forked process
    served.decide(CONTEXT)
    assert served._rng is not generator
    assert served._rng.random() != generator.random()


@pytest.fixture(scope="module")
def text_policies(tmp_path_factory):
    """Policies learned from a dsjson file with lists of actions, and from Vowpal Wabbit's text of single actions."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    lists, lines = [], []
    for _ in range(300):
        chosen, x = int(rng.integers(1, 3)), float(rng.normal())
        label = {"_label_cost": -float(chosen == 1), "_label_probability": 0.5, "_label_Action": chosen}
        context = {"U": {"x": x}, "_multi": [{"A": {"id": name, "n": 2 - x}} for name in "ab"]}
        lists.append(json.dumps(label | {"_labelIndex": chosen - 1, "a": [1, 2], "p": [0.5, 0.5], "c": context}))
        lines.append(f"{chosen}:{-float((x > 0) == (chosen == 1))}:0.5 |U x:{x}")
    policies = []
    for name, text, keys in (("lists.dsjson", lists, {"interactions": 3}), ("single.vw", lines, {})):
        (folder / name).write_text("\n".join(text) + "\n", encoding="utf-8")
        config = json.dumps({"algorithm": "cips"} | keys)
        arguments = ["learn", folder / name, "--config", config, "--output", folder / "policy.npz"]
        assert main([str(argument) for argument in arguments]) == 0
        policies.append((drcrm.load_policy(folder / "policy.npz"), folder / name))
    return policies


def test_named_features_are_those_of_the_file(text_policies):
    (lists, dsjson), (single, text) = text_policies
    [(expected, *_)] = context_batches(dsjson, lists.encoding, 1000)
    contexts = [json.loads(line)["c"] for line in dsjson.read_text().splitlines()]
    listed = lists._encode(contexts)
    assert lists.encoding.n_features == 10  # two ids, n, id × n, and the products of these five with x
    assert np.array_equal(listed.starts, expected.starts)
    assert abs(listed.features - expected.features).max() == 0
    place, propensity = lists.decide(contexts[0], random_state=1)
    assert propensity == pytest.approx(lists.policy.marginals(expected[:1])[place], rel=1e-12)
    [(expected, *_)] = context_batches(text, single.encoding, 1000)
    contexts = [{"U": {"x": float(line.rpartition(":")[2])}} for line in text.read_text().splitlines()]
    assert abs(single._encode(contexts) - expected).max() == 0
    assert single.decide(contexts[0])[0] in (1, 2)


def test_policies_of_arrays_take_arrays():
    served = ServedPolicy(StoredPolicy(SoftmaxPolicy(np.eye(2)), ArrayEncoding("single", ["a", "b"], 2), None, {}))
    actions, propensities = served.decide(np.array([[1.0, 0.0], [0.0, 50.0]]))
    assert (len(actions), actions[1], propensities[1]) == (2, "b", 1)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (
            {key: value for key, value in CONTEXT.items() if key != "age"},
            "context 0 has no 'age', expected a value, or None",
        ),
        (CONTEXT | {"age": "old"}, "age is 'old' in row 0, expected a finite number"),
        (CONTEXT | {"age": 1 + 2j}, "age is .1.2j. in row 0, expected a finite number"),
        (CONTEXT | {"age": np.inf}, "age is inf in row 0, expected a finite number"),
        (CONTEXT | {"at": "2024-05-01T24:10"}, "at is '2024-05-01T24:10' in row 0, expected a date"),
        (CONTEXT | {"city": ["Bern"]}, "city has values such as lists or maps"),
        ([CONTEXT, {}], "context 1 has no 'age'"),
        ([], "context is of type list, expected a dict or a list of dicts"),
        ("Bern", "context is of type str"),
        (pd.DataFrame(columns=[*CONTEXT]), "context has no rows"),
        (pd.DataFrame({"age": [1.0]}), "column 'price' is missing"),
    ],
)
def test_invalid_contexts_are_refused(context, message):
    with pytest.raises(InputError, match="^" + message.replace("(", r"\(")):
        ServedPolicy(STORED["single"]).decide(context)


@pytest.mark.parametrize("kind", ["single", "labels"])
@pytest.mark.parametrize("as_list", [False, True])
def test_values_unseen_in_training_are_counted_and_reported_once(kind, as_list, tmp_path):
    served = ServedPolicy(STORED[kind])
    unseen = [CONTEXT | {"city": "Chur"}, CONTEXT | {"age": None, "city": "Ulm"}, CONTEXT | {"city": True}]
    rows, reason = [*unseen, CONTEXT, CONTEXT | {"price": None}], "new value of 'city'"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            for context in [rows] if as_list else rows:
                served.decide(context)
    assert served.unseen == {reason: 6, "missing value of 'age'": 2}
    expected = [f"{name} in a context; the policy has not seen it" for name in (reason, "missing value of 'age'")]
    assert [str(warning.message) for warning in caught] == expected
    assert {warning.filename for warning in caught} == {__file__}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    [(_, of_predict, *_)] = context_batches(tmp_path / "rows.csv", served.encoding, 1000)
    assert {name: 2 * count for name, count in of_predict.items()} == served.unseen


def test_categories_in_older_files_are_found_by_their_text():
    """Older files store booleans as True and False, and numbers as texts with exponents."""
    encoding = TableEncoding("single", [0, 1], {}, {"tier": ["False", "True", "1e+22", "2.5"]}, has_number_texts=True)
    values = [[False, "False", "false"], [True, "TRUE"], ["1e+22"], [2.5, "2.50"]]
    for place, forms in enumerate(values):
        assert encoding.contexts(pd.DataFrame({"tier": pd.Series(forms, dtype=object)}))[:, place].all()


NUMBERS = {  # ways to write a number as a category: its texts in CSV, and its values in Parquet and Python
    2.5: ["2.50", "2.5", 2.5, Decimal("2.500"), np.float64(2.5)],
    0.00001: ["0.00001", "0.000010", Decimal("1E-5"), 0.00001, np.float64(1e-5)],
    0.1: ["0.10", "0.10000000000000001", np.float32(0.1), 0.1],
    1e16: ["10000000000000000.0", "10000000000000000", Decimal("1E+16"), 1e16, 10**16],
    3: ["3.0", "3", 3, 3.0, np.int8(3)],
    0: ["0.00", "-0.0", 0, -0.0],
    "a boolean": ["False", "false", "FALSE", False, np.False_],
    2**60 + 1: [str(2**60 + 1), 2**60 + 1],
    2**60 + 3: [str(2**60 + 3), 2**60 + 3],
    True: ["True", "true", "TRUE", True, np.True_],
}


@pytest.mark.parametrize("n", [2, 300], ids=["one-hot", "hashed"])
@pytest.mark.parametrize("form", [0, -1], ids=["texts", "values"])
def test_a_number_is_one_category_however_it_is_written(form, n):
    """Texts that are not decimal numbers remain other categories."""
    tiers = [forms[form] for forms in NUMBERS.values()]
    tiers += ["007", "+2.5", "7", "v1.10", "25e-1", "1e-05", "1e16", "1E16", *(f"x{row}" for row in range(n))]
    frame = pd.DataFrame({"tier": pd.Series(tiers, dtype=object)})
    encoding = encoding_of(
        json.loads(json.dumps(TableEncoding.fit(table_features(frame, [], ["tier"]), "single", [0, 1]).as_dict()))
    )
    coef = np.random.default_rng(0).normal(size=(encoding.n_features, 2))
    served = ServedPolicy(StoredPolicy(SoftmaxPolicy(coef), encoding, None, {}))
    expected = served.policy.marginals(encoding.contexts(frame))[:, 0]
    assert n > 100 or len({*np.round(expected, 9)}) == len(tiers)
    for place, forms in enumerate(NUMBERS.values()):
        contexts = [{"tier": form} for form in forms] + [{"tier": "True"}, {"tier": 3}]
        of_list = served.policy.marginals(served._encode(contexts))[:-2, 0]
        np.testing.assert_allclose(of_list, expected[place], rtol=1e-12)
        scores = [scores for context in contexts[:-2] if (scores := served._scores(context)) is not None]
        np.testing.assert_allclose([1 / (1 + np.exp(b - a)) for a, b in scores], expected[place], rtol=1e-12)


@pytest.mark.parametrize("large", [1e3, 1e12, 1.7e12, 1e16, 1e300])
@pytest.mark.parametrize("coef", [[0.7, 2.0], [-0.7, 2.0]])
def test_scores_of_any_size_give_the_probabilities_of_their_differences(large, coef):
    """The feature that all actions share has a large value."""
    lists = ActionLists([[large, 0], [large, 0], [large, 0], [large, 1 / large], [1, 3.0]], [0, 3, 4, 5])
    policy = SoftmaxPolicy(np.array(coef))
    actions, propensities = policy.draw(lists, 0)
    assert propensities.tolist() == pytest.approx([1 / 3, 1, 1], rel=1e-12)
    assert np.exp(policy.log_prob(lists, actions)).tolist() == pytest.approx([1 / 3, 1, 1], rel=1e-12)
    policy = SoftmaxPolicy(np.array([[coef[0]] * 3]))
    assert policy.draw([[large], [1.0]], 0)[1].tolist() == pytest.approx([1 / 3, 1 / 3], rel=1e-12)
    marginals = ExponentialPolicy(np.array([[coef[0], 0.0]])).draw([[large]] * 50, 0)[1]
    assert marginals.tolist() == pytest.approx([0.5] * 50, rel=1e-12)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def nested(container: type) -> Any:
    """Return lists or dicts, one in another, 100 000 deep."""
    value: Any = 1
    for _ in range(100_000):
        value = [value] if container is list else {"a": value}
    return value


ODD = [
    np.ones(2),
    np.array([]),
    pd.Series([1, 2]),
    nested(list),
    nested(dict),
    (1, 2),
    {1},
    len,
    Unprintable(),
    object(),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", [*CONTEXT])
def test_odd_values_in_a_table_are_refused(name, value):
    for context in (CONTEXT | {name: value}, [CONTEXT, CONTEXT | {name: value}]):
        with pytest.raises(InputError):
            ServedPolicy(STORED["single"]).decide(context)


@pytest.mark.parametrize("context", [{"U": {"x": 1.0}}, {"_multi": []}, {"_multi": [3]}])
def test_a_context_of_lists_needs_its_candidates(context, text_policies):
    (lists, _), _ = text_policies
    with pytest.raises(InputError, match="context 0: _multi is missing or not a list of dicts"):
        lists.decide(context)


@pytest.mark.parametrize("kind", ["single", "labels"])
@pytest.mark.parametrize("copy", [lambda served: pickle.loads(pickle.dumps(served)), deepcopy], ids=["pickle", "copy"])
def test_a_copied_policy_decides_like_the_policy(kind, copy):
    """Its caches of categories, weekdays and hours are not copied."""
    served = ServedPolicy(STORED[kind])
    for _ in range(2):
        assert copy(served).decide(CONTEXT, random_state=1) == served.decide(CONTEXT, random_state=1)


REQUEST = {"age": 30, "price": None, "city": "Bern", "id": "7", "at": "2024-05-01T13:45", "day": "2024-05-01"}


def post(body: bytes, decisions: io.StringIO) -> tuple[str, dict]:
    """Return the status and the content of the answer to a request."""
    application, statuses = make_application(ServedPolicy(stored_policy()), decisions), []
    environ = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    answer = b"".join(application(environ, lambda status, headers: statuses.append(status)))
    return statuses[0], json.loads(answer)


def test_a_client_gets_actions_that_are_written_with_their_propensities():
    decisions = io.StringIO()
    statuses, answers = zip(*(post(json.dumps(REQUEST).encode(), decisions) for _ in range(5)), strict=True)
    assert {*statuses} == {"200 OK"}
    written = pd.DataFrame([json.loads(line) for line in decisions.getvalue().splitlines()])
    assert written[["decision", "action", "propensity"]].to_dict("records") == [*answers]
    assert written["decision"].is_unique
    served = ServedPolicy(stored_policy())
    probability = served.policy.marginals(served._encode([REQUEST]))[0]
    for answer in answers:
        assert answer["propensity"] == pytest.approx(probability[served.names.index(answer["action"])], rel=1e-12)


@pytest.mark.parametrize(("body", "message"), [(b"[]", "expected a context"), (b"{", ""), (b"{}", "has no 'age'")])
def test_an_invalid_request_is_answered_with_the_reason(body, message):
    decisions = io.StringIO()
    status, answer = post(body, decisions)
    assert (status[:3], message in answer["error"], decisions.getvalue()) == ("400", True, "")
