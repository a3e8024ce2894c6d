"""Turn labelled contexts into a bandit log: split contexts, train logging policy and skyline, log actions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.errors import prefix_errors
from drcrm.experiments.array_files import (
    read_contexts,
    read_policy,
    read_split,
    read_truth,
    write_log,
    write_policy,
)
from drcrm.experiments.simulation import replay as simulation
from drcrm.experiments.simulation.replay import generator
from drcrm.files import write_npz

SKYLINE_GRID = tuple(10.0**k for k in range(-2, 3))  # C of the skyline


def split(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Split the contexts into training and held-out contexts, and draw the contexts that train π0.

    Reads ``train``. Writes ``split``: npz with the context numbers ``logging``, ``train`` and ``heldout``. The contexts
    ``logging`` train π0. They are drawn from the contexts ``train`` if ``split_unit`` is "context", and from all
    contexts if it is "row".
    """
    X, _ = read_contexts(inputs["train"])
    rng = generator(parameters["dataset"], parameters["seed"], "split")
    shares = parameters["logging_fraction"], parameters["heldout_fraction"]
    with prefix_errors(inputs["train"]):
        drawn = simulation.split_contexts(X.shape[0], parameters["split_unit"], *shares, rng)
    write_npz(outputs["split"], **drawn)


def log_crf(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Train the logging policy π0, a CRF for label vectors or a softmax regression for one action of K.

    Reads ``train`` and ``split``. Writes ``policy``: npz with coef (features + 1, labels), multiplied by
    ``logging_sharpness``. Its mask ``absent`` marks labels, or classes, without a positive context.
    """
    X, truth = read_truth(inputs["train"])
    rows = read_split(inputs["split"])["logging"]
    share = truth[rows]
    policy = share.logging_policy(X[rows], parameters["logging_c"], parameters["logging_sharpness"])
    write_policy(outputs["policy"], policy, absent=share.absent())


def skyline(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Train the skyline on full supervision. The greedy loss on the held-out contexts chooses C.

    Reads ``train`` and ``split``. Writes ``policy``: npz with coef (features + 1, labels) and the chosen C.
    """
    X, truth = read_truth(inputs["train"])
    parts = read_split(inputs["split"])
    train, heldout = parts["train"], parts["heldout"]
    policy, C = truth[train].skyline(X[train], X[heldout], truth[heldout], SKYLINE_GRID)
    write_policy(outputs["policy"], policy, C=np.array(C))


def replay(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Log the actions of π0 on the training contexts, ``replay_count`` times.

    Reads ``train``, ``split`` and ``policy``. Writes ``log``, an npz file that stores equal rows once. Its arrays are X
    with the constant feature, Y, propensity, translated cost and context. The arrays ``train`` and ``heldout`` count
    how often each row occurs in these parts. For one action of K the file also has n_actions, and a cost is −1 or 0,
    drawn with ``click_rates``.
    """
    dataset, seed, count = parameters["dataset"], parameters["seed"], parameters["replay_count"]
    X, truth = read_truth(inputs["train"])
    policy = read_policy(inputs["policy"], truth.actions)
    rng, click_rng = (generator(dataset, seed, name) for name in ("replay", "clicks"))
    log = simulation.replay(policy, X, truth, count, rng, parameters["click_rates"], click_rng)
    if parameters["split_unit"] == "row":
        share = parameters["heldout_fraction"]
        is_heldout = simulation.heldout_rows(log.size, share, generator(dataset, seed, "heldout"))
    else:
        is_heldout = np.isin(log.context, read_split(inputs["split"])["heldout"])
    merged, group = log.merge_duplicates()
    heldout = np.bincount(group, is_heldout).astype(int)
    write_log(outputs["log"], merged, train=merged.count - heldout, heldout=heldout)
