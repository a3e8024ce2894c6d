"""Turn labelled contexts into a bandit log: split contexts, train logging policy and skyline, log actions."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.errors import prefix_errors
from drcrm.files import write_npz
from drcrm.paper.array_files import (
    read_contexts,
    read_policy,
    read_split,
    read_truth,
    write_log,
    write_policy,
)
from drcrm.paper.simulation import replay as simulation
from drcrm.paper.simulation.replay import generator

SKYLINE_GRID = tuple(10.0**k for k in range(-2, 3))  # C of the skyline


def split(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Split the contexts into training and held-out contexts, and draw the contexts that train π0.

    Reads ``train``. Writes ``split``: npz with the context numbers ``logging``, ``train`` and ``heldout``. The contexts
    ``logging`` train π0. They are drawn from the contexts ``train`` if ``split_unit`` is "context", and from all
    contexts if it is "row".
    """
    X, _ = read_contexts(files["train"])
    rng = generator(settings["dataset"], settings["seed"], "split")
    shares = settings["logging_fraction"], settings["heldout_fraction"]
    with prefix_errors(files["train"]):
        drawn = simulation.split_contexts(X.shape[0], settings["split_unit"], *shares, rng)
    write_npz(files["split"], **drawn)


def log_crf(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Train the logging policy π0, a CRF for label vectors or a softmax regression for one action of K.

    Reads ``train`` and ``split``. Writes ``policy``: npz with coef (features + 1, labels), multiplied by
    ``logging_sharpness``. Its mask ``absent`` marks labels, or classes, without a positive context. Unless ``logging``
    is "crf", π0 is another function of the probabilities that coef gives, and the file has ``logging`` as JSON.
    """
    X, truth = read_truth(files["train"])
    rows = read_split(files["split"])["logging"]
    share = truth[rows]
    policy = share.logging_policy(X[rows], settings["logging_c"], settings["logging_sharpness"])
    function = {} if settings["logging"] == "crf" else {"logging": np.array(json.dumps(settings["logging"]))}
    write_policy(files["policy"], policy, absent=share.absent(), **function)


def skyline(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Train the skyline on full supervision. The greedy loss on the held-out contexts chooses C.

    Reads ``train`` and ``split``. Writes ``policy``: npz with coef (features + 1, labels) and the chosen C.
    """
    X, truth = read_truth(files["train"])
    parts = read_split(files["split"])
    train, heldout = parts["train"], parts["heldout"]
    policy, C = truth[train].skyline(X[train], X[heldout], truth[heldout], SKYLINE_GRID)
    write_policy(files["policy"], policy, C=np.array(C))


def replay(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Log the actions of π0 on the training contexts, ``replay_count`` times.

    Reads ``train``, ``split`` and ``policy``. Writes ``log``, an npz file that stores equal rows once. Its arrays are X
    with the constant feature, Y, propensity, translated cost and context. The arrays ``train`` and ``heldout`` count
    how often each row occurs in these parts. For one action of K the file also has n_actions, and a cost is −1 or 0,
    drawn with ``click_rates``.
    """
    dataset, seed, count = settings["dataset"], settings["seed"], settings["replay_count"]
    X, truth = read_truth(files["train"])
    policy = read_policy(files["policy"], truth.actions)
    rng, click_rng = (generator(dataset, seed, name) for name in ("replay", "clicks"))
    log = simulation.replay(policy, X, truth, count, rng, settings["click_rates"], click_rng)
    if settings["split_unit"] == "row":
        share = settings["heldout_fraction"]
        is_heldout = simulation.heldout_rows(log.size, share, generator(dataset, seed, "heldout"))
    else:
        is_heldout = np.isin(log.context, read_split(files["split"])["heldout"])
    merged, group = log.merge_duplicates()
    heldout = np.bincount(group, is_heldout).astype(int)
    write_log(files["log"], merged, train=merged.count - heldout, heldout=heldout)
