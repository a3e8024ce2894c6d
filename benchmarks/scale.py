"""Compare the time and the policies of drcrm and Vowpal Wabbit: python benchmarks/scale.py --vw PYTHON

Run this by hand in the project's environment. PYTHON is an interpreter with ``vowpalwabbit`` (``python -m venv ENV &&
ENV/bin/pip install vowpalwabbit==9.11.9``); the project never depends on it. The script prints a table, writes it to
``results/scale.csv`` and all runs to ``results/scale.json``. It keeps the logs in the folder ``--work``.

The logs are synthetic. A row has 20 standard normal features with 4 decimals, an action, its propensity and a click.
The cost is −click. The click probability is a logistic function of scores that are linear except for products and
absolute values of features. The scores of the logging policy π0 are partly the true ones. It explores in 5 % of the
rows (10 % for each label). Larger logs begin with the rows of the smaller ones.

single    one action of 5, each with its own score
labels    vectors of 5 labels: half the scores of the set labels, minus half the scores of the others, and a bonus for
          two neighbouring set labels

True costs are means over 100 000 fresh contexts: ``greedy`` for the most probable actions, ``drawn`` for actions drawn
from the policy. ``best action`` is the best constant action, ``best policy`` the best action for each context.
``closed`` is the share of the gap between π0 (0) and the best policy (1) that ``greedy`` closes.

drcrm     ``drcrm learn LOG --config MAPPING --output POLICY`` from Parquet and from CSV. It holds out a quarter of the
          rows, tries radii and steps, and bounds the cost of its selection; VW does none of this
vw TYPE   ``--cb K --cb_type TYPE -d LOG -f MODEL --quiet`` on VW's text, and for several passes ``--passes P
          --cache_file CACHE -k --holdout_off``. Other options are VW's defaults: learning rate 0.5, adaptive,
          normalised and invariant updates, 18 bits. VW runs ``mtr``, its recommendation, by ``--cb_adf``; the other
          types use ``--cb_force_legacy``, which is faster at the same cost, or has a lower cost with ``dm``. 1, 2, 4
          and 8 passes (``--passes``) are separate runs. The table has the fewest passes whose true cost is within 1 %
          of the best run, which a user could not know. VW has no label vectors: ``32 actions`` has an action for each
          vector; ``5 of 2`` has five lines per row, one per label, with two actions, the cost of the row and the
          label's propensity, which drcrm's file does not have. ``<`` marks the better of the two for each TYPE

Times include reading the logs, which are in the page cache, but not writing them. The script calls VW's binding without
the rest of its package. VW parses in a second thread, so its CPU seconds can exceed the wall-clock seconds. ``MB`` is
peak anonymous memory (RssAnon), which excludes memory-mapped files; ``resident MB`` includes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from processes import CommandError, measure
from scipy.special import expit, softmax

from drcrm.files import atomic
from drcrm.logs.policy_file import read_policy
from drcrm.logs.read_log import context_batches

FEATURES, ACTIONS, LABELS = 20, 5, 5
COLUMNS = [f"f{number}" for number in range(FEATURES)]
NAMES = [f"y{number}" for number in range(LABELS)]
CHUNK, FRESH, FRESH_SEED = 100_000, 100_000, 1 << 20
TYPES = "mtr", "ips", "dm", "dr"
FORMATS = "parquet", "csv"
LEARNERS = [*(f"vw-{kind}" for kind in TYPES), *(f"drcrm-{form}" for form in FORMATS)]
PASSES = 1, 2, 4, 8
NEAR = 0.01
CLICK_INTERCEPT = -1.0
OUTPUT = Path("results/scale.json")
COLUMNS_OF_TABLE = ["kind", "rows", "learner", "passes", "wall", "cpu", "rows/s", "MB", "resident MB"]
COLUMNS_OF_TABLE += ["greedy", "drawn", "closed", "note"]

VW = "import sys, pylibvw; vw = pylibvw.vw(sys.argv[1:]); vw.run_parser(); vw.finish()"


class World(ABC):
    """Contexts, click probabilities, the logging policy π0, and the files of a log."""

    kind: str
    forms: dict[str, str]  # the encodings of the log for VW, and the suffixes of their names
    mapping: dict[str, object]

    def __init__(self, sharpness: float):
        rng = np.random.default_rng(7)
        linear, bent, other = rng.normal(size=(3, FEATURES, ACTIONS)) / np.sqrt(FEATURES)
        self.linear, self.bent, self.leaning = 1.2 * linear, 0.6 * bent, sharpness * (1.2 * linear + 1.6 * other)
        self.sharpness = sharpness

    def contexts(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        return rng.normal(size=(rows, FEATURES)).round(4)

    def scores(self, X: np.ndarray) -> np.ndarray:
        half = FEATURES // 2
        bends = np.column_stack([X[:, :half] * X[:, half:], np.abs(X[:, :half]) - np.sqrt(2 / np.pi)])
        return X @ self.linear + bends @ self.bent

    @abstractmethod
    def clicks(self, X: np.ndarray) -> np.ndarray:
        """Return click probabilities, (n, actions)."""

    @abstractmethod
    def logging(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of π0, (n, actions)."""

    @abstractmethod
    def columns(self, actions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of the actions in drcrm's files."""

    @abstractmethod
    def vw_lines(self, form: str, X: np.ndarray, chosen: np.ndarray | None, p: np.ndarray, click: np.ndarray) -> list:
        """Return the lines of VW's text; without actions, lines for prediction."""

    @abstractmethod
    def vw_actions(self, form: str, predicted: np.ndarray) -> np.ndarray:
        """Return action numbers from the choices of VW, counted from 0."""

    @abstractmethod
    def action_probabilities(self, marginals: np.ndarray) -> np.ndarray:
        """Return the probabilities of all actions from the marginals of a policy of drcrm, (n, actions)."""

    @cached_property
    def fresh(self) -> tuple[np.ndarray, np.ndarray]:
        """Return fresh contexts and the costs of all their actions, (n, actions)."""
        X = self.contexts(np.random.default_rng(FRESH_SEED), FRESH)
        return X, -self.clicks(X)

    def chunk(self, index: int, rows: int) -> tuple[np.ndarray, ...]:
        """Return contexts, actions, propensities and clicks of some rows; they do not depend on the log's size."""
        rng = np.random.default_rng(index)
        X = self.contexts(rng, CHUNK)
        numbers, probabilities = np.arange(CHUNK), self.logging(X)
        drawn = (rng.random(CHUNK)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1)
        chosen = drawn.clip(max=probabilities.shape[1] - 1)
        click = (rng.random(CHUNK) < self.clicks(X)[numbers, chosen]).astype(np.int8)
        return tuple(part[:rows] for part in (X, chosen, probabilities[numbers, chosen], click))

    def chunks(self, rows: int):
        for index, start in enumerate(range(0, rows, CHUNK)):
            yield self.chunk(index, min(CHUNK, rows - start))

    def files(self, work: Path, rows: int) -> dict[str, Path]:
        """Return the files of a log and of the fresh contexts by format; write those that are missing."""
        log, fresh = f"{self.kind}_sharpness{self.sharpness:g}_{rows}", f"{self.kind}_fresh"
        paths = {form: work / f"{log}.{form}" for form in FORMATS}
        paths |= {form: work / f"{log}.{form}.vw" for form in self.forms}
        paths |= {f"fresh {form}": work / f"{fresh}.{form}.vw" for form in self.forms}
        paths["fresh"] = work / f"{fresh}.parquet"
        X = self.fresh[0]
        for name, path in paths.items():
            if path.exists():
                continue
            with atomic(path) as part:
                if name == "fresh":
                    pq.write_table(_table(X), part)
                elif name.startswith("fresh"):
                    _write_lines(part, [self.vw_lines(name.split()[1], X, None, None, None)])
                elif name in FORMATS:
                    tables = (_table(X, **self.columns(a), p=p, click=click) for X, a, p, click in self.chunks(rows))
                    _write_tables(part, tables)
                else:
                    _write_lines(part, (self.vw_lines(name, *chunk) for chunk in self.chunks(rows)))
        return paths

    def references(self) -> pd.DataFrame:
        """Return the true costs of π0, of the best constant action, and of the best policy."""
        X, costs = self.fresh
        logging = self.logging(X)
        drawn = (logging * costs).sum(axis=1).mean()
        return pd.DataFrame(
            [
                {"learner": "π0", "greedy": self.cost(logging.argmax(axis=1)), "drawn": drawn},
                {"learner": "best action", "greedy": costs.mean(axis=0).min()},
                {"learner": "best policy", "greedy": costs.min(axis=1).mean()},
            ]
        )

    def cost(self, chosen: np.ndarray) -> float:
        """Return the true mean cost of actions on the fresh contexts."""
        return self.fresh[1][np.arange(FRESH), chosen].mean()


class Single(World):
    kind, forms = "single", {"5": ""}
    mapping: ClassVar = {"action": "action"}

    def clicks(self, X):
        return expit(CLICK_INTERCEPT + self.scores(X))

    def logging(self, X):
        return 0.95 * softmax(X @ self.leaning, axis=1) + 0.05 / ACTIONS

    def columns(self, actions):
        return {"action": actions}

    def vw_lines(self, form, X, chosen, p, click):
        return _vw_text(X, "x", None if chosen is None else (chosen + 1, -click, p))

    def vw_actions(self, form, predicted):
        return predicted

    def action_probabilities(self, marginals):
        return marginals


class Labels(World):
    kind, forms = "labels", {"32": ", 32 actions", "5x2": ", 5 of 2"}
    mapping: ClassVar = {"labels": NAMES}
    vectors = (np.arange(1 << LABELS)[:, None] >> np.arange(LABELS)) & 1

    def clicks(self, X):
        neighbours = (self.vectors[:, 1:] * self.vectors[:, :-1]).sum(axis=1)
        return expit(CLICK_INTERCEPT + 0.5 * self.scores(X) @ (2 * self.vectors - 1).T + 0.15 * neighbours)

    def marginals(self, X):
        return 0.05 + 0.9 * expit(X @ self.leaning)

    def logging(self, X):
        return self.action_probabilities(self.marginals(X))

    def columns(self, actions):
        return dict(zip(NAMES, self.vectors[actions].T.astype(np.int8), strict=True))

    def vw_lines(self, form, X, chosen, p, click):
        if form == "32":
            return _vw_text(X, "x", None if chosen is None else (chosen + 1, -click, p))
        lines, marginals = [], self.marginals(X)
        for label, namespace in enumerate("abcde"):
            known = None
            if chosen is not None:
                is_set = self.vectors[chosen, label]
                known = is_set + 1, -click, np.where(is_set, marginals[:, label], 1 - marginals[:, label])
            lines.append(_vw_text(X, namespace, known))
        return [line for row in zip(*lines, strict=True) for line in row]

    def vw_actions(self, form, predicted):
        return predicted if form == "32" else predicted.reshape(-1, LABELS) @ (1 << np.arange(LABELS))

    def action_probabilities(self, marginals):
        with np.errstate(divide="ignore"):
            on, off = np.log(marginals), np.log1p(-marginals)
        return np.exp(np.maximum(on, -700) @ self.vectors.T + np.maximum(off, -700) @ (1 - self.vectors).T)


WORLDS = {world.kind: world for world in (Single, Labels)}


def _table(X: np.ndarray, **columns: np.ndarray) -> pa.Table:
    return pa.table(dict(zip(COLUMNS, X.T, strict=True)) | columns)


def _write_tables(path: Path, tables) -> None:
    first = next(tables := iter(tables))
    opened = pq.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
    with opened(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_lines(path: Path, chunks) -> None:
    with open(path, "w", encoding="ascii") as stream:
        for lines in chunks:
            stream.write("\n".join(lines) + "\n")


def _vw_text(X: np.ndarray, namespace: str, known: tuple | None) -> list[str]:
    """Return a line per row: action:cost:probability |namespace f0:… f1:…."""
    label = [part for column in known for part in (_text(column), ":")][:-1] if known else []
    parts = [*label, f" |{namespace}"]
    for name, column in zip(COLUMNS, X.T, strict=True):
        parts += [f" {name}:", _text(column)]
    return pc.binary_join_element_wise(*parts, "").to_pylist()


def _text(column: np.ndarray) -> pa.Array:
    return pc.cast(pa.array(column), pa.string())


def measure_learning(*command: str | Path) -> dict[str, float]:
    """Return wall and CPU seconds and peak memory of a command."""
    used = measure(*command)
    return {name: used[name] for name in ("wall", "MB", "resident MB")} | {"cpu": used["user"] + used["system"]}


def learn_by_vw(vw: tuple[str, str], world: World, files: dict, kind: str, form: str, passes: int) -> dict[str, object]:
    """Learn with VW, and return its time and the true cost of its greedy policy."""
    python, options = vw
    model, cache, choices = (files[form].with_suffix(suffix) for suffix in (".model", ".cache", ".choices"))
    command = ["--cb", form.rpartition("x")[2], "--cb_type", kind, "-d", files[form], "-f", model, "--quiet"]
    command += ["--cb_force_legacy"] if kind != "mtr" else []
    command += ["--passes", str(passes), "--cache_file", cache, "-k", "--holdout_off"] if passes > 1 else []
    used = measure_learning(python, "-c", VW, *command, *options.split())
    measure(python, "-c", VW, "-t", "-i", model, "-d", files[f"fresh {form}"], "-p", choices, "--quiet")
    first = 0 if kind == "mtr" else 1  # --cb_adf counts actions from 0
    chosen = world.vw_actions(form, np.loadtxt(choices, dtype=int) - first)
    for path in (model, cache, choices):
        path.unlink(missing_ok=True)
    return {**used, "greedy": world.cost(chosen)}


def learn_by_drcrm(world: World, files: dict, form: str) -> dict[str, object]:
    """Learn with drcrm, and return its time, the true costs of its policy, and the verdict."""
    log = files[form]
    config, output = log.with_suffix(".mapping.json"), log.with_suffix(".policy.npz")
    mapping = {**world.mapping, "propensity": "p", "reward": "click", "features": {"numeric": COLUMNS}}
    config.write_text(json.dumps(mapping), encoding="utf-8")
    used = measure_learning(sys.executable, "-m", "drcrm", "learn", log, "--config", config, "--output", output)
    stored = read_policy(output)
    names = [int(str(name).removeprefix("y")) for name in stored.encoding.names]
    assert names == [*range(len(names))]
    [(X, *_)] = context_batches(files["fresh"], stored.encoding, FRESH)
    policy = world.action_probabilities(stored.policy.marginals(X))
    drawn = (policy * world.fresh[1]).sum(axis=1).mean()
    verdict = stored.header["verdict"]["verdict"]
    return {**used, "greedy": world.cost(policy.argmax(axis=1)), "drawn": drawn, "note": verdict}


def runs(world: World, rows: int, learners: list[str], options: argparse.Namespace) -> pd.DataFrame:
    """Return all runs on one log, and the true costs of reference policies."""
    files, results = world.files(options.work, rows), []

    def add(name: str, learn, *arguments, **settings) -> None:
        try:
            row = learn(*arguments)
        except CommandError as error:
            row = {"wall": np.nan, "note": str(error)}
        results.append({"learner": name, **settings, **row})
        print(json.dumps({"kind": world.kind, "rows": rows, **results[-1]}), file=sys.stderr, flush=True)

    for learner in learners:
        name, how = learner.split("-")
        if name == "drcrm":
            add(f"drcrm {how}", learn_by_drcrm, world, files, how)
            continue
        for form, suffix in world.forms.items():
            if options.forms and form not in options.forms:
                continue
            for passes in options.passes:
                arguments = (options.vw, options.vw_options), world, files, how, form, passes
                add(f"vw {how}{suffix}", learn_by_vw, *arguments, type=how, passes=passes)
    truth = world.references()
    frame = pd.concat([truth, pd.DataFrame(results)]).assign(kind=world.kind, rows=rows)
    logging, best = truth["drawn"].iloc[0], truth["greedy"].iloc[-1]
    return frame.assign(closed=(logging - frame["greedy"]) / (logging - best), **{"rows/s": rows / frame["wall"]})


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Return each learner's run with the fewest passes near its best; mark the better encoding of labels for VW."""
    runs = []
    for _, group in results.groupby(["kind", "rows", "learner"], sort=False):
        cost = group["greedy"]
        runs.append(group[~(cost > cost.min() + NEAR * abs(cost.min()))].head(1))
    table = pd.concat(runs, ignore_index=True).reindex(columns=[*COLUMNS_OF_TABLE, "type"]).astype({"note": object})
    labels = table[table["kind"].eq(Labels.kind) & table["greedy"].notna()]
    table.loc[labels.groupby(["rows", "type"])["greedy"].idxmin(), "note"] = "<"
    return table[COLUMNS_OF_TABLE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=[100_000], metavar="ROWS")
    parser.add_argument("--kinds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--forms", nargs="+", help="encodings of labels for VW (32 5x2)")
    parser.add_argument("--passes", nargs="+", type=int, default=PASSES, help="passes of VW (1 2 4 8)")
    parser.add_argument("--sharpness", type=float, default=1.0, help="factor of the scores of π0 (1)")
    parser.add_argument("--vw", default=sys.executable, metavar="PYTHON", help="Python interpreter with vowpalwabbit")
    parser.add_argument("--vw-options", default="", metavar="TEXT", help="further options of VW")
    parser.add_argument("--work", type=Path, default=Path("results/scale"), metavar="FOLDER", help="folder of the logs")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    results = pd.concat(
        [
            runs(WORLDS[kind](options.sharpness), rows, options.learners, options)
            for rows in options.sizes
            for kind in options.kinds
        ],
        ignore_index=True,
    )
    table = summarize(results)
    with atomic(options.output) as part:
        results.to_json(part, orient="records", indent=1, force_ascii=False)
    table.to_csv(options.output.with_suffix(".csv"), index=False, float_format="%.4f")
    print(table.to_string(index=False, na_rep="", float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
