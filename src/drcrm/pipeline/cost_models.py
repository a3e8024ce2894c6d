"""Cost models as npz. Not among ``artifacts``: what is made without one does not depend on its code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.cost_model import CostModel
from ..core.validation import check_coefficients, check_vector
from ..errors import located
from .files import read_npz, write_npz


def write_cost_model(path: str | Path, model: CostModel) -> None:
    """Write a cost model's coefficients, its intercept and its penalty."""
    write_npz(path, coef=model.coef_, intercept=model.intercept_, penalty=np.array(model.penalty_))


def read_cost_model(path: str | Path) -> CostModel:
    """Read a cost model's coefficients and its intercept, 0 where there is none."""
    model, arrays = CostModel(), read_npz(path, ["coef"], optional=["intercept"])
    with located(path):
        model.coef_ = check_coefficients(arrays["coef"])
        if "intercept" in arrays:
            model.intercept_ = check_vector(arrays["intercept"], model.coef_.shape[1], "intercept")
    return model
