"""Measure the losses of all policies of one run (data set, seed, replay count) on the test contexts.

Reads   --test: labelled contexts; --log: the log, whose held-out part certifies what is chosen; --logging: π0 from
        log_crf; --skyline; --cost-model: npz from cost_model, of the part trained on, if there is one; --fit: npz of
        each algorithm, NAME=FILE; --classifier: npz from classify, NAME=FILE.
Writes  --output: csv with a row for each algorithm and selection: Hamming losses in labels, or of one action of K error
        rates; --output-grids, if given: csv with a row for each
        value of each algorithm's grid, its held-out scores beside its losses.

A chosen policy's ``estimate`` and ``bound`` are in units of its losses: its doubly robust estimate, or without a cost
model its self-normalised one, and the KL ball of that, which holds with probability 0.95 for all values of its grid
together, as the number of contexts grows. What π0 hardly takes counts at the largest cost. Bounds can be too low where
the ``effective_size``, in rows, is below some ten. All are empty where no held-out row has a weight, or all are of one
context. A test loss is of contexts like those logged, so the bound is by context. With replay's --split-unit row the
contexts of held-out rows were trained on as well: the bound then speaks of the contexts that were logged.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from drcrm.arrays.validation import as_float_array, check_actions
from drcrm.certificates.policy_certificate import policy_certificate
from drcrm.cost_models.support import SUPPORT, SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, prefix_errors
from drcrm.experiments.columns import CERTIFICATE, COLUMNS, GRID_COLUMNS
from drcrm.experiments.datasets.array_files import read_fits, read_log, read_policy
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.feature_maps import feature_map
from drcrm.experiments.simulation.truth import Truth
from drcrm.experiments.steps import add_clicks, add_shared, assignment, require
from drcrm.experiments.steps.cost_model import read_cost_model
from drcrm.files import read_npz, write_csv
from drcrm.policies.exponential import make_policy
from drcrm.reports.roles import LOGGING, SKYLINE
from drcrm.selection.score_names import SCORES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "log", "replay-count", "dataset", "seed", "output")
    parser.add_argument("--test", type=Path, required=True, help="npz from fetch")
    parser.add_argument("--logging", type=Path, required=True, help="npz from log_crf")
    parser.add_argument("--skyline", type=Path, required=True, help="npz from skyline")
    parser.add_argument("--cost-model", type=Path, help="npz from cost_model")
    named = {"nargs": "+", "type": assignment, "default": [], "metavar": "NAME=FILE"}
    parser.add_argument("--fit", **named, help="npz from fit")
    parser.add_argument("--classifier", **named, help="npz from classify")
    parser.add_argument("--selection", nargs="+", choices=SCORES, required=True, help="scores that choose")
    parser.add_argument(
        "--absent-label-score",
        choices=("logged", "half"),
        required=True,
        help="how π0's loss counts a label that its training contexts lack: as logged (0), or as a coin toss",
    )
    add_clicks(parser)
    parser.add_argument("--output-grids", type=Path)


def run(options: argparse.Namespace) -> None:
    require(bool(options.fit or options.classifier), "--fit or --classifier is needed")
    X, truth = read_truth(options.test)
    absent = _absent(options.logging, truth.actions.shape) if options.absent_label_score == "half" else None
    key = {"dataset": options.dataset, "replay_count": options.replay_count, "seed": options.seed}
    train, heldout = read_log(options.log)
    model = _cost_model(options, train, X.shape[1], truth)
    certify = partial(
        _certificate,
        heldout=heldout,
        loss=partial(truth.loss, clicks=options.click_rates),
        estimate="dr" if model else "snips",
        cost_model=model,
        logging_policy=read_policy(options.logging, truth.actions),
    )
    grids = {name: _grid(path, train.X, X, truth, certify, options.selection) for name, path in options.fit}
    grid_rows = [{**key, "algorithm": algorithm, **row} for algorithm, (rows, _) in grids.items() for row in rows]
    chosen = {
        LOGGING: dict.fromkeys(options.selection, _losses(options.logging, X, truth, absent)),
        **{algorithm: by_selection for algorithm, (_, by_selection) in grids.items()},
        **{name: dict.fromkeys(options.selection, _classified(path, truth)) for name, path in options.classifier},
        SKYLINE: dict.fromkeys(options.selection, _losses(options.skyline, X, truth)),
    }
    rows = [
        {**dict.fromkeys(COLUMNS), **key, "algorithm": algorithm, "selection": selection, **measured}
        for algorithm, by_selection in chosen.items()
        for selection, measured in by_selection.items()
    ]
    if options.output_grids:
        write_csv(options.output_grids, GRID_COLUMNS, grid_rows)
    write_csv(options.output, COLUMNS, rows)


def _absent(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Which labels π0's training contexts lack, a mask (q,)."""
    absent = read_npz(path, ["absent"])["absent"]
    with prefix_errors(path):
        require(np.shape(absent) == shape, f"absent has shape {np.shape(absent)}, expected {shape}")
        return check_actions(absent[None], name="absent")[0].astype(bool)


def _losses(path: Path, X, truth: Truth, absent: np.ndarray | None = None) -> dict:
    """The losses of a policy in a file."""
    policy = read_policy(path, truth.actions)
    with prefix_errors(path):
        return truth.losses(policy, X, absent)


def _classified(path: str, truth: Truth) -> dict:
    """The losses of the probabilities in a file."""
    probability = read_npz(path, ["probability"])["probability"]
    with prefix_errors(path):
        return truth.losses_of_probabilities(as_float_array(probability, "probability"))


def _cost_model(options: argparse.Namespace, train: BanditLog, n_features: int, truth: Truth) -> SupportedModel | None:
    """The cost model of the training part, with support, if there is one; InputError for what does not belong."""
    has, expected = train.X.shape[1], (n_features, *truth.actions.shape)
    with prefix_errors(options.log):
        said = f"the log has {has} features and {train.actions}, expected {expected[0]} and {expected[1]}"
        require((has, *train.actions.shape) == expected, said)
    if not options.cost_model:
        return None
    model = read_cost_model(options.cost_model)
    with prefix_errors(options.cost_model):
        expected, coef = (n_features, *truth.actions.effect_space.shape), model.coef_
        require(coef.shape == expected, f"the cost model's coef has shape {coef.shape}, expected {expected}")
        return SupportedModel.of(model, train, read_policy(options.logging, truth.actions), SUPPORT)


def _grid(
    path: str, contexts, X, truth: Truth, certify: Callable[..., dict], selections: list[str]
) -> tuple[list[dict], dict[str, dict]]:
    """The fits of a grid with their losses and held-out scores, a row each, and by selection the row that it chooses.

    That has a certificate, and the score that chose it; nothing where no value has a score. ``contexts`` are those of
    the training part, to which a feature map is fitted.
    """
    fits = read_fits(path, len(SCORES))
    with prefix_errors(path):
        features = feature_map(fits["features"], contexts) if "features" in fits else None
        policies = [make_policy(truth.actions, coef, features=features) for coef in fits["coef"]]
        rows = [
            {
                "hyperparameter": float(value),
                **dict(zip(SCORES, map(float, scores), strict=True)),
                **truth.losses(policy, X),
                "iterations": int(iterations),
                "converged": bool(converged),
                "tilt": float(fits["tilt"][0]),
            }
            for policy, value, iterations, converged, scores in zip(
                policies, *(fits[name] for name in ("grid", "iterations", "converged", "scores")), strict=True
            )
        ]
    chosen = np.zeros(len(SCORES), dtype=int) if len(fits["grid"]) == 1 else fits["chosen"]
    chosen = dict(zip(SCORES, map(int, chosen), strict=True))
    for index in {chosen[selection] for selection in selections} - {-1}:
        rows[index] |= certify(policies[index], choices=len(rows))
    best = {by: rows[chosen[by]] if chosen[by] >= 0 else {} for by in selections}
    return rows, {by: {**row, "score": row.get(by)} for by, row in best.items()}


def _certificate(policy, heldout: BanditLog, loss: Callable[[float], float], **options) -> dict[str, float]:
    """What the held-out rows say of one policy among some choices; nothing where there is no certificate."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "the effective sample size is|the mean weight is"
            )  # the former stands beside
            options |= {"method": "kl", "by": "context", "check_tails": False}  # the paper's bound, uncorrected
            certificate = policy_certificate(policy, heldout, confidence=0.95, **options)
    except InputError:
        return {}
    values = loss(certificate.value), loss(certificate.bound), certificate.effective_size
    return dict(zip(CERTIFICATE, values, strict=True))
