"""LibSVM's multi-label text: lines that follow the format, or nearly, read as a data set."""

from __future__ import annotations

import bz2
import gzip
import math
import re
from pathlib import Path
from random import Random

import numpy as np

from drcrm.experiments.datasets.source_formats import DatasetSpec, read_libsvm

from .harness import Kind, expect, in_one_line
from .mutations import NUMBERS, mutated

PACK = {"svm": bytes, "bz2": bz2.compress, "gz": gzip.compress}
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
INDEX = re.compile(rb"[+-]?\d+")


def make(r: Random) -> tuple[str, bytes, DatasetSpec]:
    """Draw a file's suffix, its text, and what it must contain."""
    spec = draw_spec(r)
    content = text(r, spec, wild=r.random() < 0.3).encode()
    if r.random() < 0.5:
        content = mutated(r, content)
    return r.choice(["svm", "svm", "bz2", "gz"]), content, spec


def draw_spec(r: Random) -> DatasetSpec:
    ids = r.sample(range(12), r.randint(1, 4))
    if r.random() < 0.3:
        return DatasetSpec(r.randint(1, 12), r.choice([ids, range(5)]), single=True)
    return DatasetSpec(r.randint(1, 12), ids, True) if r.random() < 0.4 else DatasetSpec(r.randint(1, 12), range(5))


def text(r: Random, spec: DatasetSpec, wild: bool = False, most: int = 6) -> str:
    """Draw lines of the format; ``wild``: with some token of them out of place."""
    return "".join(
        line(r, spec, wild) + r.choice(["\n"] * 6 + ["\r\n", " \n", "\n\n", "# x\n"]) for _ in range(r.randint(0, most))
    )


def line(r: Random, spec: DatasetSpec, wild: bool) -> str:
    others = 12 if spec.drop_other_labels else 0
    many = 1 if spec.single and r.random() < 0.9 else r.randint(0, 3)
    labels = [str(r.choice([*spec.labels, *range(others)])) for _ in range(many)]
    indices = sorted(r.sample(range(1, spec.features + 1), r.randint(0, min(5, spec.features))))
    features = [f"{index}:{value(r)}" for index in indices]
    tokens = [",".join(labels), *features] if labels else features
    if wild and r.random() < 0.3:
        at = r.randint(0, len(tokens))
        tokens[at:at] = [r.choice([*NUMBERS, "qid:1", f"{spec.features + 1}:1", "0:1", f"1:{r.choice(NUMBERS)}"])]
    return r.choice([" ", " ", "  ", "\t"]).join(tokens)


def value(r: Random) -> str:
    return r.choice(["0", "1", "-1", "0.25", "1e-3", ".5", "3.", "+2", "1e150", "-1e-150", "5e-324", repr(r.random())])


def simple(content: bytes, spec: DatasetSpec) -> tuple[list, list] | int:
    """Read the format by its definition alone: dense rows and label rows, or the number of the first bad line."""
    X, labels = [], []
    for number, whole in enumerate(content.split(b"\n"), start=1):
        tokens = whole.split(b"#")[0].split()
        if not tokens:
            continue
        present = [] if b":" in tokens[0] else tokens.pop(0).split(b",")
        if not all(NUMBER.fullmatch(label) and fits(float(label), spec) for label in present):
            return number
        if spec.single and len(present) != 1:
            return number
        row, last = [0.0] * spec.features, 0
        for token in tokens:
            index, _, found = token.partition(b":")
            if not (INDEX.fullmatch(index) and NUMBER.fullmatch(found) and math.isfinite(float(found))):
                return number
            if len(index) > 4000 or not last < int(index) <= spec.features:
                return number
            last = int(index)
            row[last - 1] = float(found)
        X.append(row)
        ids = {float(label) for label in present}
        if spec.single:
            labels.append(list(spec.labels).index(ids.pop()))
        else:
            labels.append([int(label in ids) for label in spec.labels])
    return (X, labels) if X else 0


def fits(label: float, spec: DatasetSpec) -> bool:
    return label in list(spec.labels) or (spec.drop_other_labels and label >= 0 and label % 1 == 0)


def check(case: tuple[str, bytes, DatasetSpec], folder: Path) -> bool:
    suffix, content, spec = case
    path = folder / f"a.{suffix}"
    path.write_bytes(PACK[suffix](content))
    return agrees(path, content, spec)


def agrees(path: Path, content: bytes | None, spec: DatasetSpec) -> bool:
    """Compare what is read with the simple reading; ``content`` is None where the file cannot be decompressed."""
    known = None if content is None else simple(content, spec)
    read, message = in_one_line(read_libsvm, path, spec)
    if read is None:
        expect(not isinstance(known, tuple), f"a good file is refused: {message}")
        expect(message.startswith(f"{path}: "), f"no place in: {message}")
        if known:
            expect(message.startswith(f"{path}: line {known}: "), f"expected line {known}: {message}")
        return False
    expect(isinstance(known, tuple), f"line {known} is accepted" if known is not None else "a damaged file is accepted")
    X, labels = read
    expect(np.array_equal(X.toarray(), known[0]), "other features than in the file")
    expect(np.array_equal(labels, known[1]), "other labels than in the file")
    return True


KIND = Kind("libsvm", 250, make, check)
