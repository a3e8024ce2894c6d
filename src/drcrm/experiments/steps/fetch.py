"""Fetch a data set's files, check their content and store them as arrays.

Reads   the files of --train and --test, from the mirror if it has them, else from --url; kept in --raw and not
        fetched again, unless a mirror that is a folder has another content. Or, with --embedded, a data set that ships
        with scikit-learn.
Writes  --output-train and --output-test: npz with X (dense, or the parts of a CSR matrix), scaled as --scale says, and
        labels: 0 and 1, (n, q), or with --actions single the class of each row, (n,), beside n_actions, how many there
        are; --origin: JSON, where each file came from, and its digest.
"""

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from drcrm.data.scaling import describe_unequal_scales, largest_entries
from drcrm.errors import InputError
from drcrm.experiments.datasets.scaling import SCALES, scaled
from drcrm.experiments.datasets.source_formats import EMBEDDED, DatasetSpec, load
from drcrm.experiments.datasets.sources import Source, file_digest, origin_of, read_record
from drcrm.experiments.steps import assignment, require, whole
from drcrm.files import write_json, write_npz

ACTIONS = ("labels", "single")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--train", nargs="+", default=[], metavar="FILE", help="names of the training files")
    parser.add_argument("--test", nargs="+", default=[], metavar="FILE", help="names of the test files")
    parser.add_argument("--url", default="", help="address of the folder that has the files")
    parser.add_argument("--mirror", default="", help="folder or address tried before --url")
    parser.add_argument("--raw", type=Path, help="folder the files are kept in")
    parser.add_argument("--features", type=whole(1), help="number of features")
    parser.add_argument("--labels", type=whole(1), help="number of labels, with ids from 0")
    parser.add_argument(
        "--keep-labels", nargs="+", type=whole(0), metavar="ID", help="ids of the labels to keep, in place of --labels"
    )
    parser.add_argument(
        "--actions", choices=ACTIONS, default=ACTIONS[0], help="whether a row has any number of labels, or exactly one"
    )
    parser.add_argument("--rows", nargs=2, type=whole(1), metavar=("TRAIN", "TEST"), help="rows the files must have")
    parser.add_argument("--drop-repeats", action="store_true", help="keep the first of documents with equal features")
    parser.add_argument(
        "--sha256", nargs="+", type=assignment, default=[], metavar="FILE=DIGEST", help="digests the files must have"
    )
    parser.add_argument("--scale", choices=SCALES, default="none", help="of the features, learned on the training part")
    parser.add_argument("--embedded", choices=EMBEDDED, help="a data set that needs no files")
    parser.add_argument("--origin", type=Path, help="file that says where the files came from")
    parser.add_argument("--output-train", type=Path, required=True)
    parser.add_argument("--output-test", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    parts, origin = _embedded(options) if options.embedded else _from_files(options)
    if options.origin:
        write_json(options.origin, origin)
    (X, labels), (X_test, labels_test) = parts
    X, X_test = scaled(options.scale, X, X_test)
    numbered = [*range(1, X.shape[1] + 1), "constant"]
    if warning := describe_unequal_scales(np.append(largest_entries(X), 1), numbered):
        print(f"{warning}; give the data set a scale, max_abs or standard", file=sys.stderr)
    known = {"n_actions": np.array(_n_labels(options))} if options.actions == "single" else {}
    write_npz(options.output_train, X=X, labels=labels, **known)
    write_npz(options.output_test, X=X_test, labels=labels_test, **known)


def _n_labels(options: argparse.Namespace) -> int:
    return EMBEDDED[options.embedded][1] if options.embedded else options.labels or len(options.keep_labels)


def _embedded(options: argparse.Namespace):
    train, test = EMBEDDED[options.embedded][0](options.actions == "single")
    shape = {"features": train[0].shape[1], "labels": _n_labels(options), "rows": [len(train[1]), len(test[1])]}
    for name, value in shape.items():
        asked = getattr(options, name)
        require(asked in (None, value), f"{options.embedded}: {name} is {value}, expected {asked}")
    return (train, test), {options.embedded: {"from": f"scikit-learn {version('scikit-learn')}"}}


def _from_files(options: argparse.Namespace):
    labels, single = options.keep_labels or (options.labels and range(options.labels)), options.actions == "single"
    for name in ("train", "test", "raw", "features"):
        require(bool(getattr(options, name)), f"--{name} is needed")
    require(bool(labels), "--labels or --keep-labels is needed")
    spec = DatasetSpec(
        features=options.features,
        labels=list(labels),
        drop_other_labels=bool(options.keep_labels) and not single,
        rows=options.rows and tuple(options.rows),
        drop_repeats=options.drop_repeats,
        single=single,
    )
    source = Source(options.url, options.mirror, dict(options.sha256))
    fetched = {name: source.fetch(name, options.raw) for name in [*options.train, *options.test]}
    try:
        parts = load(spec, *([fetched[name][0] for name in names] for names in (options.train, options.test)))
    except InputError:
        for path, place in fetched.values():
            if place is not None:
                path.unlink(missing_ok=True)
        raise
    known = read_record(options.origin) if options.origin else {}
    return parts, {
        name: origin_of(known.get(name, {}), place, file_digest(path), source, name)
        for name, (path, place) in fetched.items()
    }
