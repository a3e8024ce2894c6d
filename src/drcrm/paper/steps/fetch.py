"""Fetch data sets and other files from a mirror or a URL, and check their content."""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.data.scaling import describe_unequal_scales, largest_entries
from drcrm.errors import InputError
from drcrm.files import write_json, write_npz
from drcrm.paper.datasets.source_formats import Contexts, DatasetSpec, load, load_digits, scaled
from drcrm.paper.datasets.sources import Record, Source, file_digest, is_table, local_files, origin_of, read_record


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
        parts, record = _embedded(settings, n_labels, single)
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


def _embedded(settings: Mapping[str, Any], n_labels: int, single: bool) -> tuple[tuple[Contexts, Contexts], Record]:
    train, test = load_digits(single)
    rows = [len(train[1]), len(test[1])]
    shape = {"features": train[0].shape[1], "labels": 10, "rows": rows}
    configured = {"features": settings["features"], "labels": n_labels, "rows": settings.get("rows", rows)}
    if configured != shape:
        raise InputError(f"digits has {shape}, but the configuration says {configured}")
    return (train, test), {"digits": {"from": f"scikit-learn {version('scikit-learn')}"}}


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
    from drcrm.paper.datasets.table_formats import load_tables  # imported here: it needs pandas

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
