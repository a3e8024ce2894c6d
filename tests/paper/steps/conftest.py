"""One run of the chain of steps, which tests read and never write to."""

from pathlib import Path

import pandas as pd
import pytest
from fixtures.pipeline import draw_results, run_chain


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    return run_chain(tmp_path_factory.mktemp("toy"), seed=0, counts=(1, 4))


@pytest.fixture(scope="session")
def drawn(toy) -> Path:
    """The folder of the chain with tables and figures."""
    draw_results(toy, (1, 4))
    return toy


@pytest.fixture(scope="session")
def metrics(toy) -> pd.DataFrame:
    return pd.read_csv(toy / "metrics.csv")
