"""Policy files with one change each are refused with their name in the message, or serve finite probabilities."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_contexts import random_contexts, stored_policy

from drcrm.cost_models.ridge_model import CostModel
from drcrm.files import read_npz
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.logs.encoding.hashed_features import HashedEncoding
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.logs.rows.recognition import LearnedRows
from drcrm.policies.exponential import SoftmaxPolicy

CHILD = Path(__file__).with_name("changed_policies.py")
HEADER = {"mapping": {"action": "a"}, "algorithm": {}, "choices": 3, "seed": 0, "digest": "0", "kept": "cips"}
ODD = [None, "x", -1, float("nan"), [], True, 2**40]
ROWS = LearnedRows(np.arange(20, dtype=np.uint32), np.arange(20, dtype=np.uint64), np.zeros(20, dtype=bool))
SIZE = 100_000
Change = tuple[str, bool, bytes]  # its name, whether the file must be refused, and the content of the file


def with_model(stored: StoredPolicy) -> StoredPolicy:
    """Return a stored policy with a cost model, header and hashes of rows."""
    model = CostModel()
    effect_shape = stored.policy.actions.effect_shape
    model.coef_, model.intercept_ = np.zeros((len(stored.policy.coef), *effect_shape)), np.zeros(effect_shape)
    logging_policy = type(stored.policy)(np.zeros_like(stored.policy.coef))
    return replace(
        stored, model=SupportedModel(model, LoggingPolicy(logging_policy, 0.05), (-1.0, 0.0)), header=HEADER, rows=ROWS
    )


LISTS = StoredPolicy(SoftmaxPolicy(np.ones(3)), HashedEncoding("lists", [], [3, 7, 90]), None, HEADER)
POLICIES = {
    "single": (lambda: with_model(stored_policy("single")), random_contexts(3)),
    "labels": (lambda: with_model(stored_policy("labels")), random_contexts(3)),
    "lists": (lambda: with_model(LISTS), [{"_multi": [{"a": 1}, {"b": 2}]}]),
}


def npz(arrays: dict[str, Any], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return the bytes of an npz file, which may have pickled arrays."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", member.getvalue())
    return stream.getvalue()


def changes_of_arrays(arrays: dict[str, Any]) -> Iterator[Change]:
    """Yield files without an array, or with another shape, type or value in it."""
    content = npz(arrays)
    for cut in (0, 1, 100, len(content) // 2, len(content) - 1):
        yield f"first {cut} bytes", True, content[:cut]
    large = dict(arrays, coef=np.zeros((30 * SIZE, 3)))
    yield "compressed zeros", True, npz(large, zipfile.ZIP_DEFLATED)
    for name, array in arrays.items():
        is_number = array.dtype.kind == "f"
        changed = {
            "gone": None,
            "objects": np.array([[1], {}, None], dtype=object),
            "nested objects": np.array([np.array([None], dtype=object)], dtype=object),
            "texts": np.array(["x"] * 3),
            "complex": array.astype(complex) * 1j if is_number else np.ones(3, dtype=complex),
            "one more axis": array[..., None],
            "empty": np.zeros(0),
            "records": np.zeros(3, dtype=[("a", "f8")]),
        }
        if array.ndim:
            changed |= {"one row less": array[:-1], "one row more": np.concatenate([array, array[:1]])}
            changed |= {"scalar": np.array(1.0), "without rows": array[:0], "bytes": array.astype("S8")}
        if array.ndim == 2:
            changed |= {"one column": array[:, :1], "transposed": array.T[:, : len(array) - 1], "flat": array.ravel()}
        if is_number:
            changed |= {str(value): np.full_like(array, value) for value in (np.nan, np.inf)}
        for kind, other in changed.items():
            files = {key: value for key, value in (arrays | {name: other}).items() if value is not None}
            is_optional = name == "features" or name.startswith(("rows", "cost.model"))
            yield f"{name} {kind}", not is_optional, npz(files)


def paths_in(value: Any) -> Iterator[list]:
    """Yield the path of each part of a JSON value; of a list only the first one."""
    parts = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, part in parts:
        yield [key]
        yield from ([key, *path] for path in paths_in(part))


def changes_of_header(arrays: dict[str, Any]) -> Iterator[Change]:
    """Yield files without a key of the header, with an odd value, or with a value that occurs twice in a list."""
    header = json.loads(str(arrays["header"]))
    for path in paths_in(header):
        for change in ["gone", "twice", *ODD]:
            changed = json.loads(json.dumps(header))
            *parents, last = path
            part = changed
            for key in parents:
                part = part[key]
            if change == "gone":
                del part[last]
            elif change == "twice":
                if not isinstance(part[last], list) or not part[last]:
                    continue
                part[last] = part[last] + part[last][:1]
            else:
                part[last] = change
            is_lost = path[0] == "encoding" and path[-1] not in ("has_number_texts", "booleans", "interactions")
            must_refuse = path[-1] == "format" or (is_lost and change in ("gone", "twice"))
            yield f"{path} {change!r}", must_refuse, npz(arrays | {"header": np.array(json.dumps(changed))})
    yield "repeated key", True, npz(arrays | {"header": np.array(json.dumps(header)[:-1] + ', "format": 1}')})
    yield "deep header", True, npz(arrays | {"header": np.array("[" * SIZE)})


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "single" else pytest.mark.slow) for kind in POLICIES]
)
def test_changed_files_are_refused_or_serve(kind, tmp_path):
    make, contexts = POLICIES[kind]
    write_policy(tmp_path / "p.npz", make())
    with zipfile.ZipFile(tmp_path / "p.npz") as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    arrays = read_npz(tmp_path / "p.npz", names)
    (tmp_path / "contexts.json").write_text(json.dumps(contexts), encoding="utf-8")
    changes = [("unchanged", False, npz(arrays)), *changes_of_header(arrays), *changes_of_arrays(arrays)]
    (tmp_path / "p.npz").unlink()
    for number, (_, _, content) in enumerate(changes):
        (tmp_path / f"{number:05d}.npz").write_bytes(content)
    child = subprocess.run([sys.executable, CHILD, tmp_path, tmp_path / "outcomes.txt"], capture_output=True, text=True)
    lines = [json.loads(line) for line in (tmp_path / "outcomes.txt").read_text(encoding="utf-8").splitlines()]
    outcomes = {changes[int(number)][0]: found for number, found in lines}
    expected = {name: {"refused"} if must_refuse else {"refused", "served"} for name, must_refuse, _ in changes}
    wrong = {name: found for name, found in outcomes.items() if found not in expected[name]}
    assert (child.returncode, wrong) == (0, {}), child.stderr
    assert outcomes["unchanged"] == "served"
    assert len(outcomes) == len(changes)
