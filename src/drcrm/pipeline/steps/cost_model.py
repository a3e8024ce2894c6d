"""Fit a model of the cost to the training part of a log.

Reads   --log: npz from replay.
Writes  --output: npz with coef (features + 1, labels + 1), the label columns and then that of no label, the
        intercept, which is 0 as one feature is constant, and the penalty chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...core.cost_model import CostModel
from ..cost_models import write_cost_model
from ..log_formats import read_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, required=True, help="npz from replay")
    parser.add_argument("--output", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    train, _ = read_log(options.log)
    write_cost_model(options.output, CostModel().fit_log(train))
