"""Data of experiments: fetch data sets, split their contexts, train logging policy and skyline, and log actions."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.numerics import describe_unequal_scales, largest_entries
from drcrm.errors import InputError, prefix_errors
from drcrm.files import write_json, write_npz
from drcrm.paper.array_files import (
    read_policy,
    read_split,
    read_truth,
    write_log,
    write_policy,
)
from drcrm.paper.dataset_formats import Contexts, DatasetSpec, load, load_digits, scaled
from drcrm.paper.simulation import generator, heldout_rows, split_contexts
from drcrm.paper.simulation import replay as draw_log
from drcrm.paper.sources import Record, Source, file_digest, is_table, local_files, origin_of, read_record

SKYLINE_GRID = tuple(10.0**k for k in range(-2, 3))  # C of the skyline


def fetch(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fetch a data set, check its content and store it as arrays.

    Parameters
    ----------
    files
        ``mirror``: folder or URL that is tried before the data set's own URL, if there is one. It writes ``train`` and
        ``test``, npz files of contexts. The features X are scaled; they are dense or the parts of a CSR
        matrix. The labels are an array (n, q) of 0 and 1. With ``actions: single`` they are classes, (n,), and
        ``n_actions`` is the number of classes. The folder of ``train`` also gets ``raw/`` with the fetched files, and
        ``origin.json`` with the place and the digest of each.
    settings
        The entry of the data set in the configuration.
    """
    single, labels = settings["actions"] == "single", settings.get("labels")
    n_labels = len(labels) if isinstance(labels, list) else labels
    origin = Path(files["train"]).with_name("origin.json")
    if "embedded" in settings:
        import sklearn  # imported here: slow, and other data sets do not need it

        parts, record = load_digits(single), {"digits": {"from": f"scikit-learn {sklearn.__version__}"}}
    elif "path" in settings:
        *parts, n_labels, record = _from_paths(settings, n_labels, single)
    else:
        parts, record = _from_files(files.get("mirror"), origin, settings, single)
    write_json(origin, record)
    (X, labels), (X_test, labels_test) = parts
    X, X_test = scaled(settings.get("scale", "none"), X, X_test)
    names = [*range(1, X.shape[1] + 1), "constant"]
    if warning := describe_unequal_scales(np.append(largest_entries(X), 1), names):
        print(f"{warning}; set the data set's scale to max_abs or standard", file=sys.stderr)
    known = {"n_actions": np.array(n_labels)} if single else {}
    write_npz(files["train"], X=X, labels=labels, **known)
    write_npz(files["test"], X=X_test, labels=labels_test, **known)


def _from_paths(settings: Mapping[str, Any], n_labels: int | None, single: bool) -> tuple[Any, ...]:
    """Return the contexts of both parts from local files, the number of classes or labels, and the record of files."""
    paths = [*map(Path, local_files(settings))]
    record: Record = {
        str(path): {"from": os.path.abspath(path.parent), "sha256": file_digest(path)}
        for path in paths
        if path.exists()
    }
    if not is_table(paths[0]):
        return *load(_spec(settings, single), *([path] for path in paths)), n_labels, record
    from drcrm.paper.dataset_formats import load_tables  # imported here: it needs pandas

    train, test, classes = load_tables(paths, settings.get("label_columns", []), single)
    return train, test, None if classes is None else len(classes), record


def _spec(settings: Mapping[str, Any], single: bool) -> DatasetSpec:
    """Return what text files of a data set must contain."""
    labels = settings["labels"]
    return DatasetSpec(
        features=settings["features"],
        labels=list(range(labels) if isinstance(labels, int) else labels),
        drop_other_labels=isinstance(labels, list) and not single,
        derived_labels={int(label): ids for label, ids in settings.get("derived_labels", {}).items()},
        **{name: settings.get(name) for name in ("rows", "nonzeros", "positives")},
        drop_repeats=settings["drop_repeats"],
        single=single,
    )


def _from_files(
    mirror: str | None, origin: Path, settings: Mapping[str, Any], single: bool
) -> tuple[tuple[Contexts, Contexts], Record]:
    """Return the contexts of both parts and the record of their files. Remove new files that cannot be read."""
    source = Source(settings.get("url"), mirror, settings["sha256"])
    names = [*settings["train"], *settings["test"]]
    fetched = {name: source.fetch(name, origin.with_name("raw")) for name in names}
    try:
        parts = load(
            _spec(settings, single), *([fetched[name][0] for name in settings[part]] for part in ("train", "test"))
        )
    except InputError:
        for path, place in fetched.values():
            if place is not None:
                path.unlink(missing_ok=True)
        raise
    known = read_record(origin)
    return parts, {
        name: origin_of(known.get(name, {}), place, file_digest(path), source, name)
        for name, (path, place) in fetched.items()
    }


def fetch_file(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fetch one file of a mirror unchanged and check its digest.

    ``files`` has the ``mirror``, if there is one, and the ``file`` to write. ``settings`` has the ``folder`` of the
    file in the mirror, and its digest ``sha256``.
    """
    path, mirror = Path(files["file"]), files.get("mirror")
    folder = f"{mirror.rstrip('/')}/{settings['folder']}" if mirror else None
    Source(mirror=folder, sha256={path.name: settings["sha256"]}).fetch(path.name, path.parent)


def split(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Split the contexts into training and held-out contexts, and draw the contexts that train π0.

    Reads ``train``. Writes ``split``: npz with the context numbers ``logging``, ``train`` and ``heldout``. The contexts
    ``logging`` train π0. They are drawn from the contexts ``train`` if ``split_unit`` is "context", and from all
    contexts if it is "row".
    """
    X, _ = read_truth(files["train"])
    rng = generator(settings["dataset"], settings["seed"], "split")
    shares = settings["logging_fraction"], settings["heldout_fraction"]
    with prefix_errors(files["train"]):
        drawn = split_contexts(X.shape[0], settings["split_unit"], *shares, rng)
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
    policy = share.fit_policy(X[rows], settings["logging_c"])
    policy = type(policy)(settings["logging_sharpness"] * policy.coef)
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
    log = draw_log(policy, X, truth, count, rng, settings["click_rates"], click_rng)
    if settings["split_unit"] == "row":
        share = settings["heldout_fraction"]
        is_heldout = heldout_rows(log.size, share, generator(dataset, seed, "heldout"))
    else:
        is_heldout = np.isin(log.context, read_split(files["split"])["heldout"])
    merged, group = log.merge_duplicates()
    heldout = np.bincount(group, is_heldout).astype(int)
    write_log(files["log"], merged, train=merged.count - heldout, heldout=heldout)
