"""One run of the chain of steps, which tests read and never write to."""

from pathlib import Path

import pandas as pd
import pytest
from fixtures.pipeline import draw_results, run_chain


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    folder = run_chain(tmp_path_factory.mktemp("toy"), seed=0, counts=(1, 4))
    draw_results(folder, (1, 4))
    return folder


@pytest.fixture(scope="session")
def metrics(toy) -> pd.DataFrame:
    return pd.read_csv(toy / "metrics.csv")
