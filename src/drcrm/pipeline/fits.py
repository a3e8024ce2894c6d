"""Fits along a grid as npz, read with every content check."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.validation import as_float, check_actions, check_coefficients, check_integers, reject
from ..errors import InputError, located
from .files import read_npz

COLUMNS = ("grid", "coef", "iterations", "converged", "scores")  # what there is of each grid value


def read_fits(path: str | Path, n_scores: int) -> dict[str, np.ndarray]:
    """Read k fits: grid (k,), coef (k, d, q), iterations, converged (k,), scores (k, s), chosen (s,), tilt (1,).

    InputError for another shape or a value out of range; grid, scores and tilt may have NaN.
    """
    fits = read_npz(path, [*COLUMNS, "chosen", "tilt"])
    with located(path):
        for name in ("grid", "coef", "scores", "tilt"):
            fits[name] = as_float(fits[name], name)
        k = fits["grid"].size
        expected = {"grid": (k,), "scores": (k, n_scores), "tilt": (1,)}
        if not k or fits["coef"].shape[:1] != (k,) or fits["coef"].ndim != 3:
            raise InputError(f"grid has {k} values, coef has shape {fits['coef'].shape}, expected one (d, q) for each")
        for name, shape in expected.items():
            if fits[name].shape != shape:
                raise InputError(f"{name} has shape {fits[name].shape}, expected {shape}")
        check_coefficients(fits["coef"].reshape(k, -1))
        fits["iterations"] = check_integers(fits["iterations"], k, "iterations")
        fits["converged"] = check_actions(np.asarray(fits["converged"])[None], name="converged")[0]
        fits["chosen"] = check_integers(fits["chosen"], n_scores, "chosen")
        reject((fits["chosen"] < -1) | (fits["chosen"] >= k), fits["chosen"], "chosen", f"-1 to {k - 1}")
        if fits["converged"].shape != (k,):
            raise InputError(f"converged has shape {fits['converged'].shape}, expected ({k},)")
    return fits
