"""Fit a model of the cost to the training part of a log.

Reads   --log: npz from replay.
Writes  --output: npz with coef (features + 1, labels + 1), the label columns and then that of no label, and the
        penalty chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...core.cost_model import CostModel
from ..files import write_npz
from ..log_formats import read_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, required=True, help="npz from replay")
    parser.add_argument("--output", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    train, _ = read_log(options.log)
    model = CostModel().fit_log(train)
    write_npz(options.output, coef=model.coef_, penalty=np.array(model.penalty_))
