"""Bandit logs as files: the pipeline's own npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.log import BanditLog
from ..errors import located
from .files import read_npz, write_npz


def write_log(path: str | Path, log: BanditLog, train: np.ndarray, heldout: np.ndarray) -> None:
    """Write a log, and how often each of its rows occurs in the training and in the held-out part."""
    rows = {"Y": log.Y, "propensity": log.propensity, "cost": log.cost, "context": log.context}
    write_npz(path, X=log.X, **rows, train=train, heldout=heldout)


def read_log(path: str | Path) -> tuple[BanditLog, BanditLog]:
    """Read the training and the held-out part of a log; what is wrong in it is said with the file's name."""
    arrays = read_npz(path, ["X", "Y", "propensity", "cost", "context", "train", "heldout"])
    train, heldout = arrays.pop("train"), arrays.pop("heldout")
    with located(path):
        log = BanditLog(**arrays)
        return log.recount(train), log.recount(heldout)
