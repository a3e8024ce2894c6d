"""Fetch data sets and other files from a mirror or a URL, and check their content."""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.data.scaling import describe_unequal_scales, largest_entries
from drcrm.errors import InputError
from drcrm.experiments.source_formats import Contexts, DatasetSpec, load, load_digits, scaled
from drcrm.experiments.sources import Record, Source, file_digest, origin_of, read_record
from drcrm.files import write_json, write_npz


def fetch(inputs: Mapping[str, Any], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Fetch a data set, check its content and store it as arrays.

    Parameters
    ----------
    inputs
        ``mirror``: folder or URL that is tried before the data set's own URL, or None.
    outputs
        ``train`` and ``test``: npz files of contexts. The features X are scaled; they are dense or the parts of a CSR
        matrix. The labels are an array (n, q) of 0 and 1. With ``actions: single`` they are classes, (n,), and
        ``n_actions`` is the number of classes. The folder of ``train`` also gets ``raw/`` with the fetched files, and
        ``origin.json`` with the place and the digest of each.
    parameters
        The entry of the data set in the configuration.
    """
    single = parameters["actions"] == "single"
    n_labels = parameters["labels"] if isinstance(parameters["labels"], int) else len(parameters["labels"])
    origin = Path(outputs["train"]).with_name("origin.json")
    if "embedded" in parameters:
        parts, record = _embedded(parameters, n_labels, single)
    else:
        parts, record = _from_files(inputs["mirror"], origin, parameters, single)
    write_json(origin, record)
    (X, labels), (X_test, labels_test) = parts
    X, X_test = scaled(parameters.get("scale", "none"), X, X_test)
    names = [*range(1, X.shape[1] + 1), "constant"]
    if warning := describe_unequal_scales(np.append(largest_entries(X), 1), names):
        print(f"{warning}; set the data set's scale to max_abs or standard", file=sys.stderr)
    known = {"n_actions": np.array(n_labels)} if single else {}
    write_npz(outputs["train"], X=X, labels=labels, **known)
    write_npz(outputs["test"], X=X_test, labels=labels_test, **known)


def _embedded(parameters: Mapping[str, Any], n_labels: int, single: bool) -> tuple[tuple[Contexts, Contexts], Record]:
    train, test = load_digits(single)
    rows = [len(train[1]), len(test[1])]
    shape = {"features": train[0].shape[1], "labels": 10, "rows": rows}
    configured = {"features": parameters["features"], "labels": n_labels, "rows": parameters.get("rows", rows)}
    if configured != shape:
        raise InputError(f"digits has {shape}, but the configuration says {configured}")
    return (train, test), {"digits": {"from": f"scikit-learn {version('scikit-learn')}"}}


def _from_files(
    mirror: str | None, origin: Path, parameters: Mapping[str, Any], single: bool
) -> tuple[tuple[Contexts, Contexts], Record]:
    """Return the contexts of both parts and the record of their files. Remove new files that cannot be read."""
    labels = parameters["labels"]
    spec = DatasetSpec(
        features=parameters["features"],
        labels=list(range(labels) if isinstance(labels, int) else labels),
        drop_other_labels=isinstance(labels, list) and not single,
        derived_labels={int(label): ids for label, ids in parameters.get("derived_labels", {}).items()},
        **{name: parameters.get(name) for name in ("rows", "nonzeros", "positives")},
        drop_repeats=parameters["drop_repeats"],
        single=single,
    )
    source = Source(parameters.get("url"), mirror, parameters["sha256"])
    names = [*parameters["train"], *parameters["test"]]
    fetched = {name: source.fetch(name, origin.with_name("raw")) for name in names}
    try:
        parts = load(spec, *([fetched[name][0] for name in parameters[part]] for part in ("train", "test")))
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


def fetch_file(inputs: Mapping[str, Any], outputs: Mapping[str, str], parameters: Mapping[str, str]) -> None:
    """Fetch one file of a mirror unchanged and check its digest.

    ``inputs`` has the ``mirror``, and ``outputs`` the ``file``. ``parameters`` has the ``folder`` of the file in the
    mirror, and its digest ``sha256``.
    """
    path, mirror = Path(outputs["file"]), inputs["mirror"]
    folder = f"{mirror.rstrip('/')}/{parameters['folder']}" if mirror else None
    Source(mirror=folder, sha256={path.name: parameters["sha256"]}).fetch(path.name, path.parent)
