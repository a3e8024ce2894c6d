"""Lists of actions from tables with a row for each candidate: features, chunks, errors, predictions, decisions."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import encoded

import drcrm
from drcrm.errors import InputError
from drcrm.logs.batches import fit_encoding, join_batches
from drcrm.logs.policy_file import encoding_of
from drcrm.logs.read_log import context_batches, log_batches, read_raw_log
from drcrm.mapping.log_mapping import as_mapping

FEATURES = {"numeric": ["price", "age"], "categorical": ["category", "device"]}
MAPPING = {"list": "request", "chosen": "shown", "propensity": "p", "reward": "click", "features": FEATURES}


def candidates(n: int, seed: int = 0) -> pd.DataFrame:
    """Return n requests with 1 to 5 candidates; only the row of the shown candidate has a propensity and a click."""
    rng, rows = np.random.default_rng(seed), []
    for request in range(n):
        size = int(rng.integers(1, 6))
        context = {"request": f"r{request}", "device": str(rng.choice(["phone", "desk"])), "age": rng.integers(18, 80)}
        p = rng.dirichlet(np.full(size, 5.0))
        shown, cheap = int(rng.choice(size, p=p)), rng.uniform(size=size)
        for place in range(size):
            own = {"item": f"i{rng.integers(9)}", "price": cheap[place], "category": str(rng.choice(["a", "b", "c"]))}
            outcome = {"p": p[place], "click": int(rng.random() < 0.8 - 0.6 * cheap[place])} if place == shown else {}
            rows.append(context | own | {"shown": int(place == shown), "uniform": 1 / size} | outcome)
    return pd.DataFrame(rows)


TABLE = candidates(60)


def write(folder, table: pd.DataFrame, name: str = "log.csv"):
    getattr(table, "to_parquet" if name.endswith("parquet") else "to_csv")(folder / name, index=False)
    return folder / name


def expected_features(table: pd.DataFrame) -> np.ndarray:
    """Return the features of the candidates, (N, 10): own features × (age, devices, 1), by pandas."""
    scaled = {name: (table[name] - table[name].mean()) / table[name].std(ddof=0) for name in ("price", "age")}
    own = np.column_stack([scaled["price"], *(table["category"] == value for value in "abc")]).astype(float)
    devices = [table["device"] == value for value in ("desk", "phone")]
    context = np.column_stack([scaled["age"], *devices, np.ones(len(table))]).astype(float)
    return np.einsum("ni,nj->nij", own, context).reshape(len(table), -1)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "frame", "True/False"])
def test_rows_and_features_of_the_candidates(tmp_path, name):
    table = TABLE.assign(shown=TABLE["shown"].astype(bool)) if name == "True/False" else TABLE
    if name == "frame":
        log = drcrm.BanditLog.from_frame(table, MAPPING)
    else:
        log = drcrm.read_log(write(tmp_path, table, name if "." in name else "log.csv"), MAPPING)
    lists = [group for _, group in TABLE.groupby("request", sort=False)]
    shown = TABLE[TABLE["shown"] == 1]
    assert log.actions.count_choices().tolist() == list(map(len, lists))
    assert log.Y.tolist() == [group["shown"].to_numpy().argmax() for group in lists]
    assert np.array_equal(log.cost, -shown["click"])
    assert np.allclose(log.propensity, shown["p"], rtol=1e-12)
    features = log.actions.unbind(log.X).features
    assert np.allclose(features.toarray() if hasattr(features, "toarray") else features, expected_features(TABLE))


@pytest.mark.parametrize("order", [2, 3])
def test_interactions_have_the_kernel_of_products_of_features(order):
    """ψ·ψ' is the sum, over all products, of products of the features' kernels; a missing price has an indicator."""
    table = TABLE.assign(price=TABLE["price"].mask(TABLE.index % 7 == 0))
    log = drcrm.BanditLog.from_frame(table, MAPPING | {"interactions": order})
    features = log.actions.unbind(log.X).features
    price, age = ((table[name] - table[name].mean()) / table[name].std(ddof=0) for name in ("price", "age"))
    price = np.outer(price.fillna(0), price.fillna(0)) + np.outer(price.isna(), price.isna())
    category, device = (np.equal.outer(*[table[name].to_numpy()] * 2) for name in ("category", "device"))
    age = np.outer(age, age)
    expected = (price + category) * (1 + age + device) + price * category
    if order == 3:
        expected += price * category * (age + device) + (price + category) * age * device
    assert np.allclose(features @ features.T, expected, rtol=1e-10)
    assert features.shape[1] == 5 * 4 + 2 * 3 + (order == 3) * (6 + 12 + 4 + 6)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_lists_may_cross_the_ends_of_chunks(tmp_path, name):
    mapping, path = as_mapping(MAPPING | {"group": "item", "slice": "device"}), write(tmp_path, TABLE, name)
    whole = read_raw_log(path, mapping)
    X = encoded(whole).X
    for rows in (3, 50):
        batches = list(log_batches(path, mapping, rows))
        assert len(batches) > (30 if rows == 3 else 2)
        raw_log = join_batches(batches)
        for key, values in whole.rows.columns.items():
            assert np.array_equal(values, raw_log.rows.columns[key]), key
        assert abs(encoded(raw_log).X - X).max() == 0
        candidates = [X.features for X, *_ in context_batches(path, fit_encoding(whole), rows)]
        assert abs(np.concatenate(candidates) - X).max() == 0


def test_missing_values_new_values_and_the_stored_encoding(tmp_path):
    table = TABLE.assign(price=TABLE["price"].mask(TABLE.index % 7 == 0))
    raw_log = read_raw_log(write(tmp_path, table), as_mapping(MAPPING), lambda: tmp_path)  # memory-mapped
    encoding = encoding_of(json.loads(json.dumps(fit_encoding(raw_log).as_dict())))
    assert raw_log.description.missing == {"price": table["price"].isna().sum()}
    assert encoding.n_features == 5 * 4  # an indicator is one more feature of a candidate
    path = write(tmp_path, table.assign(category=table["category"].replace("a", "new")), "new.csv")
    [(lists, unseen, missing, _)] = context_batches(path, encoding, 10**6)
    assert (unseen, missing) == (
        {"new value of 'category'": (table["category"] == "a").sum()},
        raw_log.description.missing,
    )
    assert len(lists) == 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shown": 0}, r"shown' is 1 in 0 of the rows 0 to 4, which are one list by 'request', expected exactly one"),
        ({"shown": 1}, "is 1 in 5 of the rows 0 to 4"),
        ({"shown": 0.5}, r"chosen 'shown' is 0.5 in row 0, expected 0 or 1"),
        ({"request": None}, "list 'request' is missing in row 0, expected an id in every row"),
        ({"p": None}, "propensity 'p' is missing in row 3, expected a value in (0, 1]"),
        ({"price": 1.0, "category": "a"}, "no feature differs among the candidates of a list"),
    ],
)
def test_invalid_lists_are_rejected(tmp_path, change, message):
    assert TABLE["shown"].tolist()[:4] == [0, 0, 0, 1]
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.read_log(write(tmp_path, TABLE.assign(**change)), MAPPING)


@pytest.mark.parametrize("rows", [10, 1000])
def test_scattered_lists_are_rejected(tmp_path, rows):
    """The second half of the rows repeats ids of the first; within a chunk and in different ones."""
    again = candidates(30, seed=1)
    path = write(tmp_path, pd.concat([TABLE, again]))
    first = int(TABLE.index[TABLE["request"] == "r0"][0])
    with pytest.raises(InputError, match=f"rows {first} and {len(TABLE)} have the same request.*sort the rows"):
        list(log_batches(path, as_mapping(MAPPING), rows))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": None}, "mapping has list, but no chosen"),
        ({"list": None}, "mapping has chosen, but no list"),
        ({"action": "item"}, "mapping has action and list, expected only one of them"),
        ({"features": {"categorical": ["request"]}}, "'request' is list and a categorical feature"),
        ({"interactions": 1}, "interactions is 1, expected 2 or 3"),
    ],
)
def test_conflicting_keys_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        as_mapping(MAPPING | changes)


def test_interactions_are_refused_without_lists_of_named_features(tmp_path):
    single = {"action": "item", "propensity": "p", "reward": "click", "features": {"numeric": ["age"]}}
    arrays = {"X": np.eye(4), "starts": [0, 2, 4], "Y": [0, 1], "propensity": [0.5, 0.5], "cost": [0.0, 1.0]}
    np.savez(tmp_path / "lists.npz", **arrays)
    vw = tmp_path / "log.vw"
    vw.write_text("1:0:0.5 | x:1\n2:1:0.5 | x:2\n")
    shown = write(tmp_path, TABLE[TABLE["shown"] == 1])
    for path, mapping in ((shown, single), (vw, {}), (tmp_path / "lists.npz", {})):
        with pytest.raises(InputError, match="interactions is 2, but the log has no lists of actions with named"):
            drcrm.read_log(path, mapping | {"interactions": 2})


def test_commands_and_decisions(tmp_path, run):
    """Learn, predict, certify and decide agree with π(a|x) ∝ exp(ψ_a·θ), and a column's value with IPS."""
    table, new = candidates(600), candidates(200, seed=5)
    path, policy = write(tmp_path, table), tmp_path / "policy.npz"
    config = tmp_path / "mapping.json"
    config.write_text(json.dumps(MAPPING | {"algorithm": "kl_dro_dr", "interactions": 3}))
    assert run("learn", path, "--config", config, "--output", policy)[0] == 0
    output = tmp_path / "actions.csv"
    assert run("predict", policy, write(tmp_path, new, "new.csv"), "--output", output, "--keep", "item")[0] == 0
    predicted, served = pd.read_csv(output), drcrm.load_policy(policy)
    [(lists, *_)] = context_batches(tmp_path / "new.csv", served.encoding, 10**6)
    scores = np.asarray(lists.features @ served.policy.coef).ravel()
    probability = np.exp(scores) / pd.Series(np.exp(scores)).groupby(new["request"]).transform("sum")
    size = new.groupby("request")["item"].transform("size")
    new["probability"] = 0.95 * probability + 0.05 / size  # the default share of uniform actions
    new["place"] = new.groupby("request", sort=False).cumcount()
    drawn = predicted.merge(new, left_on=["request", "action"], right_on=["request", "place"], how="left")
    assert predicted["request"].tolist() == new["request"].unique().tolist()
    assert drawn["item_x"].tolist() == drawn["item_y"].tolist()
    assert np.allclose(drawn["propensity"], drawn["probability"], rtol=1e-9)
    context = new[new["request"] == "r3"]
    shared = {"age": int(context["age"].iloc[0]), "device": context["device"].iloc[0]}
    listed = context[["price", "category"]].to_dict("records")
    action, propensity = served.decide(shared | {"_multi": listed}, random_state=0)
    assert np.isclose(propensity, context["probability"].iloc[action], rtol=1e-9)
    places, propensities = served.decide(new, random_state=0)
    assert np.allclose(propensities, new["probability"][np.flatnonzero(new["place"] == 0) + places], rtol=1e-9)
    with pytest.raises(InputError, match="context 0 has no 'price', expected a value"):
        served.decide(shared | {"_multi": [{"category": "a"}]})
