"""Data sets by the step ``fetch``: their files, and names that lead elsewhere."""

from __future__ import annotations

import functools
import hashlib
import operator
from pathlib import Path
from random import Random

import numpy as np
from scipy import sparse

from drcrm.experiments.datasets.source_formats import DatasetSpec
from drcrm.files import read_npz

from .harness import Kind, expect, step
from .libsvm import draw_spec, simple, text
from .mutations import mutated

PLAIN = ["a.svm", "b.svm", "c d.svm", "é.svm"]
NAMES = [
    *PLAIN,
    "../../../canary.svm",
    "../x.svm",
    "/x.svm",
    "link.svm",
    "folder.svm",
    "sub/a.svm",
    ".",
    "..",
    "",
    "x" * 300,
    "a\n.svm",
]


def make(r: Random) -> tuple[DatasetSpec, dict[str, bytes], list[str], list[str], list[str]]:
    """Draw what a data set has, the files of its mirror, the names asked for, and other arguments."""
    spec = draw_spec(r)
    files = {name: (text(r, spec, r.random() < 0.1) + f"{spec.labels[0]} 1:1\n").encode() for name in PLAIN}
    if r.random() > 0.8:
        files["a.svm"] = mutated(r, files["a.svm"], 1)
    names = PLAIN if r.random() < 0.7 else NAMES
    train, test = r.sample(names, r.randint(1, 2)), r.sample(names, 1)
    others = []
    if r.random() > 0.7:
        others += ["--rows", r.choice(["1", "2", "3", "4"]), r.choice(["1", "2", "3", "x"])]
    if r.random() > 0.7:
        others += ["--drop-repeats"]
    if r.random() > 0.7:
        digest = hashlib.sha256(files["a.svm"]).hexdigest()
        others += ["--sha256", r.choice([f"a.svm={digest}", f"a.svm={digest[:-1]}", "a.svm", "../x=0"])]
    if r.random() > 0.9:
        others += ["--mirror", r.choice(["nowhere", "", "mirror/../mirror"])]
    if r.random() > 0.9:
        others += ["--raw", r.choice(["data/raw link", "mirror/a.svm", "data/../data/raw"])]
    return spec, files, train, test, others


def check(case, folder: Path) -> bool:
    spec, files, train, test, others = case
    (folder / "mirror").mkdir()
    for name, content in files.items():
        (folder / "mirror" / name).write_bytes(content)
    raw = folder / "data/raw"
    (raw / "folder.svm").mkdir(parents=True)
    (raw / "link.svm").symlink_to(folder.parents[2] / "canary.svm")
    (folder / "data/raw link").symlink_to(raw)
    counted = isinstance(spec.labels, range)
    labels = ["--labels", len(spec.labels)] if counted else ["--keep-labels", *spec.labels]
    labels += ["--actions", "single"] * spec.single
    done, _ = step(
        *("fetch", "--mirror", "mirror", "--raw", "data/raw", "--features", spec.features, *labels, *others),
        *(
            "--train",
            *train,
            "--test",
            *test,
            "--output-train",
            "results/train.npz",
            "--output-test",
            "results/test.npz",
        ),
        kept="data",
    )
    for path in raw.glob("*.svm"):
        whole = path.is_symlink() or path.is_dir() or path.read_bytes() == files[path.name]
        expect(whole, f"{path.name} is kept, but not what the mirror has")
    made = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    expect(made <= {"mirror", "data", "results"}, f"files in {made}")
    if not done:
        return False
    parts = []
    for names in (train, test):
        read = [simple(files.get(name, b"0 1:1\n"), spec) for name in names]  # what else can be read is the link's
        expect(all(isinstance(part, tuple) for part in read), "a file that is none of the format is accepted")
        parts.append(
            (
                functools.reduce(operator.iadd, (part[0] for part in read), []),
                functools.reduce(operator.iadd, (part[1] for part in read), []),
            )
        )
    if "--drop-repeats" in others:
        seen, kept = [], []
        for X, rows in parts:
            first = [X[i] not in seen and (seen.append(X[i]) or True) for i in range(len(X))]
            kept.append(
                (
                    [x for x, keep in zip(X, first, strict=True) if keep],
                    [y for y, keep in zip(rows, first, strict=True) if keep],
                )
            )
        parts = kept
    for name, (X, rows) in zip(("train", "test"), parts, strict=True):
        found = read_npz(folder / f"results/{name}.npz", ["X", "labels"])
        expect(
            np.array_equal(found["X"].toarray() if sparse.issparse(found["X"]) else found["X"], X), f"other X in {name}"
        )
        expect(np.array_equal(found["labels"], rows), f"other labels in {name}")
    return True


KIND = Kind("fetching", 40, make, check)
