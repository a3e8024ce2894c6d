"""Users' logs of every format: columns, lines and arrays that are nearly right, and damaged bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd

import drcrm
from drcrm.logs.encoding.registry import encoding_of
from drcrm.logs.readers.log_files import read_contexts

from .harness import Kind, expect, in_one_line
from .mutations import NUMBERS, WORDS, mutated

FORMATS = ("csv", "parquet", "npz", "dsjson", "vw")
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age"], "categorical": ["city"]},
}
ODD = [*NUMBERS, *WORDS, "<script>", "$x$", "\u202e", "名", '"', "a b", None]


def make(r: Random) -> tuple[str, bytes, object, list[float] | None]:
    """Draw a file's name, its bytes, its mapping, and the costs that it must have; None where it may be refused."""
    form = r.choice(FORMATS)
    wild = r.random() < 0.4
    content, costs = globals()[f"{form}_file"](r, wild)
    pack = r.choice([*PACK]) if form in ("csv", "dsjson", "vw") else ""
    mapping = mapping_of(r) if form in ("csv", "parquet") else None
    content = PACK[pack](content)
    if r.random() < 0.3:
        content, costs = mutated(r, content), None
    is_good = not wild and (form not in ("csv", "parquet") or mapping == MAPPING)
    return f"log.{form}{pack}", content, mapping, costs if is_good and costs else None


def mapping_of(r: Random) -> object:
    if r.random() < 0.8:
        return MAPPING
    keys = [*MAPPING, "slice", "group", "split", "time", "delimiter", "decimal", "odd"]
    mapping = {
        **MAPPING,
        r.choice(keys): r.choice([None, 3, [], {}, "city", "p", ",", ";", {"time": ["city"]}]),
    }
    return r.choice([mapping, None, r.choice(ODD)])


def frame_of(r: Random, wild: bool) -> tuple[dict[str, list], list[float]]:
    n = r.randint(1, 8)
    columns = {
        "item": [r.choice(["a", "b", "1"]) for _ in range(n)],
        "p": [r.choice([0.5, 1.0, 0.25, 1e-6]) for _ in range(n)],
        "click": [r.choice([0, 1, 2.5, -1]) for _ in range(n)],
        "age": [0, *(r.choice([0, 1.5, -3, 1e6, None]) for _ in range(n - 1))],
        "city": [r.choice(["Bern", "Zürich", "東京", ""]) for _ in range(n)],
    }
    costs = [-value for value in columns["click"]]
    if wild:
        name = r.choice([*columns])
        columns[name][r.randrange(n)] = r.choice(ODD)
        if r.random() < 0.2:
            del columns[r.choice([*columns])]
    return columns, costs


def csv_file(r: Random, wild: bool) -> tuple[bytes, list[float]]:
    columns, costs = frame_of(r, wild)
    frame, signs = pd.DataFrame(columns), r.choice([(",", "."), (";", ","), (";", "."), ("\t", ",")])
    text = frame.to_csv(index=r.random() < 0.3, sep=signs[0], decimal=signs[1])
    return text.encode("utf-8", "surrogatepass"), costs


def parquet_file(r: Random, wild: bool) -> tuple[bytes, list[float]]:
    columns, costs = frame_of(r, wild)
    frame = pd.DataFrame(columns)
    mixed = [name for name in frame if frame[name].map(type).nunique() > 1]
    frame[mixed] = frame[mixed].map(str)
    stream = io.BytesIO()
    frame.to_parquet(stream, compression=r.choice(["snappy", None, "gzip"]))
    return stream.getvalue(), costs


def npz_file(r: Random, wild: bool) -> tuple[bytes, list[float]]:
    n = r.randint(1, 6)
    cost = [r.choice([0.0, -1.0, 2.0]) for _ in range(n)]
    arrays = {
        "X": np.ones((n, 2)),
        "Y": np.array([r.randrange(3) for _ in range(n)]),
        "propensity": np.full(n, 0.5),
        "cost": np.array(cost),
    }
    if r.random() < 0.4:
        names = {"X": "context", "Y": "action", "propensity": "pscore"}
        arrays = {names.get(name, name): array for name, array in arrays.items()}
        arrays["reward"] = -arrays.pop("cost")
    if wild:
        name = r.choice([*arrays, "context", "count", "starts", "n_actions", "position"])
        arrays[name] = np.array(
            r.choice([[], [0.5] * n, [-1] * n, ["a"] * n, [[1, 0]] * n, [math.nan] * n, 3, 10**12, [10**9] * n])
        )
        if r.random() < 0.3:
            del arrays[r.choice([*arrays])]
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue(), cost


def dsjson_file(r: Random, wild: bool) -> tuple[bytes, list[float]]:
    lines, costs = [], []
    for _ in range(r.randint(1, 5)):
        if r.random() < 0.15:
            lines.append(r.choice(['{"RewardValue": 1}', "[CHECKPOINT", "", '{"_skipLearn": true}']))
            continue
        k = r.randint(1, 4)
        order = r.sample(range(1, k + 1), k)
        costs.append(r.choice([0.0, -1.0]))
        said = {
            "_label_cost": costs[-1],
            "_label_Action": order[0],
            "_labelIndex": order[0] - 1,
            "_label_probability": 0.5,
            "a": order,
            "p": [0.5, *[0.5 / max(k - 1, 1)] * (k - 1)],
            "c": {"s": r.choice(["x", 2, True]), "_multi": [{"id": f"a{i}"} for i in range(k)]},
        }
        if r.random() < 0.2:
            said["pdrop"] = r.choice([0, 0.5])
        if wild and r.random() < 0.5:
            spoil(r, said)
        lines.append(json.dumps(said))
    return "\n".join(lines).encode(), costs


def spoil(r: Random, said: dict) -> None:
    """Change a key of a decision, or of its context."""
    place = r.choice([said, said, said["c"]])
    key = r.choice([*place, "_outcomes", "_slots", "pdrop", "_text", "k"])
    odd = [None, 0, 1, -1, 1.5, math.nan, math.inf, 10**400, "", "x", [], [0], [[1]], {}, {"_multi": []}, True]
    place[key] = r.choice(odd)
    if r.random() < 0.2:
        del place[key]


def vw_file(r: Random, wild: bool) -> tuple[bytes, list[float]]:
    lines, costs = [], []
    in_lists = r.random() < 0.5
    for _ in range(r.randint(1, 4)):
        costs.append(r.choice([0.0, -1.0, 0.5]))
        label = f"{r.randint(1, 3)}:{costs[-1]}:0.5"
        if in_lists:
            k = r.randint(1, 3)
            chosen = r.randrange(k)
            lines += ["shared |s x y:2"] * (r.random() < 0.7 or k == 1)
            lines += [f"{label if at == chosen else ''} |a f{at}" for at in range(k)]
            lines.append("")
        else:
            lines.append(f"{label} |s x y:2 {r.choice(['', 'z:0.5', '|t:3 u'])}")
    if wild:
        at = r.randrange(len(lines))
        lines[at] = r.choice([str(r.choice(ODD)), lines[at] + str(r.choice(ODD)), str(r.choice(ODD)) + lines[at], ""])
    return "\n".join(lines).encode("utf-8", "surrogatepass"), costs


def check(case: tuple[str, bytes, object, list[float] | None], folder: Path) -> bool:
    name, content, mapping, costs = case
    path = folder / name
    path.write_bytes(content)
    log, message = in_one_line(drcrm.read_log, path, mapping)
    if log is None:
        expect(costs is None, f"a good file is refused: {message}")
        return False
    if costs is not None:
        expect(log.cost.tolist() == costs, "other costs than in the file")
    expect(np.isfinite(log.cost).all() and (log.propensity > 0).all(), "odd numbers")
    encoding = encoding_of(json.loads(json.dumps(log.encoding.as_dict())))
    contexts, message = in_one_line(read_contexts, path, encoding)
    if contexts is None:
        expect(len(log.skipped), f"contexts that were learned from are refused: {message}")
        return True
    X, unseen = contexts
    expect(not unseen or len(log.skipped), f"new in the file itself: {unseen}")
    found, own = (getattr(each, "features", each) for each in (X, log.X))
    expect(found.shape[1] == own.shape[1] == encoding.n_features, "another number of features")
    if found.shape == own.shape:
        expect(not abs(found - own).max() > 0, "other contexts for prediction than for learning")
    return True


KIND = Kind("user_logs", 150, make, check)
