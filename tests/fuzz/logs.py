"""Log files, read and fitted to by the step."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np

from drcrm.experiments.datasets.array_files import read_log

from . import arrays
from .harness import Kind, expect, in_one_line, step
from .mutations import mutated
from .npz import dense, loads, numbers

FITS = [
    ("CIPS", "", [], {}),
    ("POEM", "variance_penalty", [0.1], {}),
    ("KLCRM", "temperature", [0.5], {}),
    ("AdaptiveKLCRM", "radius", [0.01], {"variance": "sum"}),
    ("KLDRO", "radius", [0.01, 1.0], {}),
    ("Chi2DRO", "radius", [0.1], {"estimate": "snips"}),
    ("LogSmoothing", "smoothing", [0.1], {}),
    ("LogSumExp", "temperature", [1.0], {"start": "imitation"}),
    ("WeightedLikelihood", "sharpness", [1.0], {}),
    ("CIPS", "weight.exploration", [0.1], {"weight": "implicit"}),
    ("CIPS", "", [], {"estimate": "dr", "start": "model", "tilt": "auto"}),
    ("KLDRO", "radius", [0.1], {"estimate": "dm"}),
]


def make(r: Random) -> tuple[dict, bytes, int | None]:
    """Draw the arrays of a log, its file's bytes, and what is fitted to it, if anything."""
    content = arrays.log(r)
    if r.random() < 0.5:
        content = arrays.spoilt(r, content)
    packed = arrays.packed(r, content)
    fit = r.randrange(len(FITS)) if r.random() < 0.3 else None
    return content, mutated(r, packed) if r.random() < 0.2 else packed, fit


def good(content: dict) -> bool:
    """Whether arrays are a log, by its definition."""
    X, Y = dense("X", content), numbers(content.get("Y"), 2)
    p, c, context, train, heldout = (
        numbers(content.get(name), 1) for name in ("propensity", "cost", "context", "train", "heldout")
    )
    if any(part is None or len(part) != (0 if Y is None else len(Y)) for part in (p, c, context, train, heldout)):
        return False
    given = np.asarray(content["cost"]).dtype
    if given.kind == "u" and (c > np.iinfo(given).max // 2).any():  # what was below 0 has wrapped around
        return False
    counts = all((part % 1 == 0).all() and (part >= 0).all() and 0 < part.sum() < 2**53 for part in (train, heldout))
    return (
        X is not None
        and set(Y.ravel()) <= {0, 1}
        and (p > 0).all()
        and (p <= 1).all()
        and set(context) <= set(range(len(X)))
        and counts
    )


def check(case: tuple[dict, bytes, int | None], folder: Path) -> bool:
    content, packed, fit = case
    path = folder / "log.npz"
    path.write_bytes(packed)
    read, message = in_one_line(read_log, path)
    if read is None:
        expect(message.startswith(str(path)), f"no place in: {message}")
        expect(not good(content) or not loads(packed, content), f"a good log is refused: {message}")
    else:
        expect(good(content), "arrays that are no log are accepted")
        for part, name in zip(read, ("train", "heldout"), strict=True):
            kept = content[name] > 0
            X = part.X if isinstance(part.X, np.ndarray) else part.X.toarray()
            expect(
                np.array_equal(X[part.context], dense("X", content)[content["context"][kept].astype(int)]), "other X"
            )
            for array in ("Y", "propensity", "cost"):
                expect(np.array_equal(getattr(part, array), content[array][kept]), f"other {array}")
            expect(np.array_equal(part.count, content[name][kept]), "other counts")
    if fit is None:
        return read is not None
    name, parameter, grid, options = FITS[fit]
    arguments = ["--estimator", name, *(["--parameter", parameter, "--grid", *grid] if parameter else [])]
    output = folder / "results/fit.npz"
    fitted, _said = step("fit", "--log", path, *arguments, "--options", json.dumps(options), "--output", output)
    expect(read is not None or not fitted, "a fit to what is no log")
    if fitted:
        finite(output, content)
    return fitted


def finite(output: Path, content: dict) -> None:
    """Expect finite fits, and the held-out IPS and SNIPS that their coefficients have."""
    with np.load(output) as found:
        k = len(found["grid"])
        expect(np.isfinite(found["coef"]).all() and np.isfinite(found["objective"]).all(), "a fit is not finite")
        expect((found["iterations"] <= 1000).all(), "too many iterations")
        kept = content["heldout"] > 0
        Y, p, c, held = (content[name][kept].astype(float) for name in ("Y", "propensity", "cost", "heldout"))
        X = dense("X", content)[content["context"][kept].astype(int)]
        with np.errstate(all="ignore"):
            for index in range(k):
                u = X @ found["coef"][index]
                w = np.exp((Y * u - np.logaddexp(0, u)).sum(axis=1) - np.log(p))
                ips, snips = (held * w * c).sum() / held.sum(), (held * w * c).sum() / (held * w).sum()
                for score, meant in ((found["scores"][index, 0], ips), (found["scores"][index, 2], snips)):
                    meant = meant if np.isfinite(meant) else np.nan
                    same = np.isclose(score, meant, rtol=1e-6, atol=1e-9 * max(1, abs(c).max()), equal_nan=True)
                    expect(same, f"a score is {score}, not {meant}")


KIND = Kind("logs", 150, make, check)
