"""Policies on tables with every kind of feature, and contexts with missing, unknown and unusual values."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from drcrm.logs.encoding.tables import TableEncoding, table_features
from drcrm.logs.policy_file import StoredPolicy
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy

NAMES = {"single": ["left", "middle", "right"], "labels": ["banner", "mail"]}
TIMES = ["2024-05-01T13:45:10.5+02:00", "2023-12-31 00:00", "2024-02-29", "2024-05-03T23:59Z"]


def training_encoding(kind: str = "single") -> TableEncoding:
    """Return the encoding of a log with every kind of feature: two numbers, a hashed column, times and dates."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, n),
            "price": np.where(rng.random(n) < 0.1, np.nan, rng.exponential(30, n)),
            "city": rng.choice(["Bern", "Genf", "名", "1", ""], n),
            "id": np.arange(n) % 150,
            "at": [f"2024-05-{1 + row % 28:02d}T{row % 24:02d}:30" for row in range(n)],
            "day": [f"2024-06-{1 + row % 30:02d}" for row in range(n)],
        }
    )
    return TableEncoding.fit(
        table_features(frame, ["age", "price"], ["city", "id"], ["at", "day"]), kind, NAMES[kind], times=("at", "day")
    )


def stored_policy(kind: str = "single", scale: float = 1.0) -> StoredPolicy:
    """Return a policy with random coefficients on the features of ``training_encoding``."""
    encoding = training_encoding(kind)
    policies: dict[str, type[LinearPolicy]] = {"single": SoftmaxPolicy, "labels": ExponentialPolicy}
    coef = scale * np.random.default_rng(1).normal(size=(encoding.n_features, len(NAMES[kind])))
    return StoredPolicy(policies[kind](coef, np.linspace(-1, 1, len(NAMES[kind]))), encoding, None, {})


def contexts(as_json: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Draw contexts; ``as_json`` draws only values that are the same in JSON."""
    number = st.none() | st.floats(-1e6, 1e6) | st.integers(-1000, 1000) | st.booleans()
    category = st.none() | st.sampled_from(["Bern", "Genf", "名", "1", "", "Chur"]) | st.text(max_size=5)
    category |= st.integers(-3, 200) | st.booleans()
    time = st.none() | st.sampled_from(TIMES)
    if not as_json:
        number |= st.sampled_from([np.nan, "3.5", "", "NA", " 7 ", np.float64(2), np.int64(3), 10**20])
        category |= st.sampled_from([np.nan, 1.0, 2.5, "1.0", b"x", np.int64(1), np.float64(1), 10**20, 1e300])
        time |= st.sampled_from(["", "NaN", " 2024-05-01 ", "0009-01-01T05:06"])
        time |= st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
    return st.fixed_dictionaries(
        {"age": number, "price": number, "city": category, "id": category, "at": time, "day": time}
    )


def random_contexts(n: int) -> list[dict[str, Any]]:
    """Return contexts with values that JSON has, a fifth of them missing and many unknown."""
    rng = np.random.default_rng(2)
    texts = ["Bern", "Genf", "名", "1", "1.0", "Chur", "é" * 5, "a b", "\U0001f600", "x" * 23]

    def category() -> Any:
        return [texts[rng.integers(len(texts))], int(rng.integers(-3, 200)), bool(rng.integers(2))][rng.integers(3)]

    def draw(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            **{"age": draw(float(rng.normal(40, 30))), "price": draw(int(rng.integers(0, 99)))},
            **{"city": draw(category()), "id": draw(category())},
            **{name: draw(TIMES[rng.integers(len(TIMES))]) for name in ("at", "day")},
        }
        for _ in range(n)
    ]
