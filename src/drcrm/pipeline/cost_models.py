"""Cost models as npz. Not among ``artifacts``: what is made without one does not depend on its code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.cost_model import CostModel
from ..core.validation import check_coefficients
from ..errors import located
from .files import read_npz, write_npz


def write_cost_model(path: str | Path, model: CostModel) -> None:
    """Write a cost model's coefficients and its penalty."""
    write_npz(path, coef=model.coef_, penalty=np.array(model.penalty_))


def read_cost_model(path: str | Path) -> CostModel:
    """Read a cost model's coefficients."""
    model = CostModel()
    coef = read_npz(path, ["coef"])["coef"]
    with located(path):
        model.coef_ = check_coefficients(coef)
    return model
