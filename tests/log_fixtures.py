"""Small log as a frame, and its mapping."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "price": rng.integers(1, 9, n),
            "city": rng.choice(["Bern", "Zürich", "東京"], n),
            "item": rng.choice(["b", "a", "c"], n),
            "p": rng.uniform(0.1, 1, n),
            "click": rng.integers(0, 2, n),
            "place": rng.integers(1, 4, n),
            "user": rng.integers(0, 12, n),
            "q": rng.uniform(0, 1, n),
        }
    )


@pytest.fixture
def mapping() -> dict:
    return {
        "action": "item",
        "propensity": "p",
        "reward": "click",
        "features": {"numeric": ["age", "price"], "categorical": ["city"]},
    }
