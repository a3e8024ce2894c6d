"""From a log's file to a policy, and how good it is, beside Vowpal Wabbit: python benchmarks/scale.py --vw PYTHON

Run by hand in the project's environment. PYTHON is an interpreter that has ``vowpalwabbit`` (``python -m venv ENV &&
ENV/bin/pip install vowpalwabbit==9.11.9``); the project never depends on it. Prints a table, writes it to
``results/scale.csv`` and all runs to ``results/scale.json``. Logs are kept in ``--work``, and made once.

A made log: contexts of 20 standard normal features, with 4 decimals; an action, its propensity, and a click or none.
The cost is −click. The probability of a click is known: a logistic function of scores that are mostly linear; what is
not is products of features and absolute values. π0 leans to other scores, which have some of the true ones in them,
and leaves 5 % to chance (of each label 10 %). A log begins with the rows of each smaller one.

single    one action of 5, each with its score
labels    vectors of 5 labels: half the scores of those that are set, less half of those that are not, and something
          more for each two neighbours that are set

True costs are those of 100 000 fresh contexts: ``greedy`` of the most probable actions, ``drawn`` as the policy draws.
``best action`` is the best for all contexts, ``best policy`` that for each; ``closed`` is how far ``greedy`` comes from
π0 as it draws (0) to the latter (1).

drcrm     ``drcrm learn LOG --config MAPPING --output POLICY`` from Parquet, and from CSV. It holds out a quarter, tries
          radii and steps, and bounds what it chose; VW does none of this
vw TYPE   ``--cb K --cb_type TYPE -d LOG -f MODEL --quiet`` on VW's text, with more passes than one ``--passes P
          --cache_file CACHE -k --holdout_off``. All else is VW's default: learning rate 0.5, adaptive, normalised and
          invariant updates, 18 bits. ``mtr``, its recommendation, goes by ``--cb_adf`` as VW has ``--cb`` go there;
          the others with ``--cb_force_legacy``, which takes less time to the same cost, or with ``dm`` to a lower.
          1, 2, 4 and 8 passes (``--passes``) are runs of their own, each from the text on; in the table is the least
          whose true cost is within 1 % of the best of these, as no user could know. VW has no label vectors: ``32
          actions`` has an action for each; ``5 of 2`` has five lines a row, a namespace and one action of two for each
          label, with the cost of the row and the label's own propensity, which drcrm's file has not. ``<`` is the
          better for its TYPE

Reading is counted, writing the logs is not; they are in the page cache. VW is called by its binding, without the rest
of its package; it parses in a thread of its own, so its CPU seconds can be more than those of the clock. ``MB`` is the
peak of anonymous memory, which has no mapped files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
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
from scipy.special import expit, softmax

from drcrm.files import atomic
from drcrm.logs.policy_file import read_policy
from drcrm.logs.readers.log_files import context_batches

FEATURES, ACTIONS, LABELS = 20, 5, 5
COLUMNS = [f"f{each}" for each in range(FEATURES)]
NAMES = [f"y{each}" for each in range(LABELS)]
CHUNK, FRESH, FRESH_SEED = 100_000, 100_000, 1 << 20
TYPES = "mtr", "ips", "dm", "dr"
FORMATS = "parquet", "csv"
LEARNERS = [*(f"vw-{each}" for each in TYPES), *(f"drcrm-{each}" for each in FORMATS)]
PASSES = 1, 2, 4, 8
NEAR = 0.01
BASE = -1.0  # of the scores of clicks
OUTPUT = Path("results/scale.json")
SHOWN = ["kind", "rows", "learner", "passes", "wall", "cpu", "rows/s", "MB", "greedy", "drawn", "closed", "note"]

# A process of its own starts and measures each command.
MEASURE = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
done, peak = 0, 0
while not done:
    done, status, used = os.wait4(pid, os.WNOHANG)
    try:
        with open(f"/proc/{pid}/status") as lines:
            peak = max(peak, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
    except (OSError, TypeError):
        pass
    time.sleep(0.01)
wall, cpu = time.perf_counter() - start, used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), wall, cpu, peak / 1024]))
"""
VW = "import sys, pylibvw; vw = pylibvw.vw(sys.argv[1:]); vw.run_parser(); vw.finish()"


class World(ABC):
    """Contexts, the clicks and π0's probabilities of all actions, and the files of a log."""

    kind: str
    forms: dict[str, str]  # in which VW is given the log, and what they are called
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
        """The probability of a click, (n, actions)."""

    @abstractmethod
    def logging(self, X: np.ndarray) -> np.ndarray:
        """π0, (n, actions)."""

    @abstractmethod
    def columns(self, actions: np.ndarray) -> dict[str, np.ndarray]:
        """The actions as drcrm's files have them."""

    @abstractmethod
    def vw_lines(self, form: str, X: np.ndarray, chosen: np.ndarray | None, p: np.ndarray, click: np.ndarray) -> list:
        """The rows as VW's text has them; without actions, to be predicted."""

    @abstractmethod
    def vw_actions(self, form: str, predicted: np.ndarray) -> np.ndarray:
        """The numbers of actions by those that VW chose, each from 0 on."""

    @abstractmethod
    def drawn(self, marginals: np.ndarray) -> np.ndarray:
        """The probabilities of all actions by what a policy of drcrm returns, (n, actions)."""

    @cached_property
    def fresh(self) -> tuple[np.ndarray, np.ndarray]:
        """Fresh contexts, and their costs, (n, actions)."""
        X = self.contexts(np.random.default_rng(FRESH_SEED), FRESH)
        return X, -self.clicks(X)

    def chunk(self, index: int, rows: int) -> tuple[np.ndarray, ...]:
        """Rows of the log, the same for any size of it: contexts, actions, propensities, clicks."""
        rng = np.random.default_rng(index)
        X = self.contexts(rng, CHUNK)
        each, probabilities = np.arange(CHUNK), self.logging(X)
        drawn = (rng.random(CHUNK)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1)
        chosen = drawn.clip(max=probabilities.shape[1] - 1)
        click = (rng.random(CHUNK) < self.clicks(X)[each, chosen]).astype(np.int8)
        return tuple(part[:rows] for part in (X, chosen, probabilities[each, chosen], click))

    def chunks(self, rows: int):
        for index, start in enumerate(range(0, rows, CHUNK)):
            yield self.chunk(index, min(CHUNK, rows - start))

    def files(self, work: Path, rows: int) -> dict[str, Path]:
        """The files of a log and of the fresh contexts, by their format; those that are not there are made."""
        log, fresh = f"{self.kind}_sharpness{self.sharpness:g}_{rows}", f"{self.kind}_fresh"
        found = {each: work / f"{log}.{each}" for each in FORMATS}
        found |= {form: work / f"{log}.{form}.vw" for form in self.forms}
        found |= {f"fresh {form}": work / f"{fresh}.{form}.vw" for form in self.forms}
        found["fresh"] = work / f"{fresh}.parquet"
        X = self.fresh[0]
        for name, path in found.items():
            if path.exists():
                continue
            with atomic(path) as part:
                if name == "fresh":
                    pq.write_table(_table(X), part)
                elif name.startswith("fresh"):
                    _write_lines(part, [self.vw_lines(name.split()[1], X, None, None, None)])
                elif name in FORMATS:
                    made = (_table(X, **self.columns(a), p=p, click=click) for X, a, p, click in self.chunks(rows))
                    _write_tables(part, made)
                else:
                    _write_lines(part, (self.vw_lines(name, *each) for each in self.chunks(rows)))
        return found

    def references(self) -> pd.DataFrame:
        """What is to be reached: π0, the best action for all contexts, and the best for each."""
        X, costs = self.fresh
        logging, action, best = self.logging(X), costs.mean(axis=0).min(), costs.min(axis=1).mean()
        found = [
            {
                "learner": "π0",
                "greedy": self.cost(logging.argmax(axis=1)),
                "drawn": (logging * costs).sum(axis=1).mean(),
            },
            {"learner": "best action", "greedy": action},
            {"learner": "best policy", "greedy": best},
        ]
        return pd.DataFrame(found)

    def cost(self, chosen: np.ndarray) -> float:
        """The true cost of actions for the fresh contexts."""
        return self.fresh[1][np.arange(FRESH), chosen].mean()


class Single(World):
    kind, forms = "single", {"5": ""}
    mapping: ClassVar = {"action": "action"}

    def clicks(self, X):
        return expit(BASE + self.scores(X))

    def logging(self, X):
        return 0.95 * softmax(X @ self.leaning, axis=1) + 0.05 / ACTIONS

    def columns(self, actions):
        return {"action": actions}

    def vw_lines(self, form, X, chosen, p, click):
        return _vw_text(X, "x", None if chosen is None else (chosen + 1, -click, p))

    def vw_actions(self, form, predicted):
        return predicted

    def drawn(self, marginals):
        return marginals


class Labels(World):
    kind, forms = "labels", {"32": ", 32 actions", "5x2": ", 5 of 2"}
    mapping: ClassVar = {"labels": NAMES}
    vectors = (np.arange(1 << LABELS)[:, None] >> np.arange(LABELS)) & 1

    def clicks(self, X):
        neighbours = (self.vectors[:, 1:] * self.vectors[:, :-1]).sum(axis=1)
        return expit(BASE + 0.5 * self.scores(X) @ (2 * self.vectors - 1).T + 0.15 * neighbours)

    def marginals(self, X):
        return 0.05 + 0.9 * expit(X @ self.leaning)

    def logging(self, X):
        return self.drawn(self.marginals(X))

    def columns(self, actions):
        return dict(zip(NAMES, self.vectors[actions].T.astype(np.int8), strict=True))

    def vw_lines(self, form, X, chosen, p, click):
        if form == "32":
            return _vw_text(X, "x", None if chosen is None else (chosen + 1, -click, p))
        lines, own = [], self.marginals(X)
        for label, namespace in enumerate("abcde"):
            known = None
            if chosen is not None:
                is_set = self.vectors[chosen, label]
                known = is_set + 1, -click, np.where(is_set, own[:, label], 1 - own[:, label])
            lines.append(_vw_text(X, namespace, known))
        return [line for row in zip(*lines, strict=True) for line in row]

    def vw_actions(self, form, predicted):
        return predicted if form == "32" else predicted.reshape(-1, LABELS) @ (1 << np.arange(LABELS))

    def drawn(self, marginals):
        with np.errstate(divide="ignore"):
            on, off = np.log(marginals), np.log1p(-marginals)
        return np.exp(np.maximum(on, -700) @ self.vectors.T + np.maximum(off, -700) @ (1 - self.vectors).T)


WORLDS = {each.kind: each for each in (Single, Labels)}


def _table(X: np.ndarray, **others: np.ndarray) -> pa.Table:
    return pa.table(dict(zip(COLUMNS, X.T, strict=True)) | others)


def _write_tables(path: Path, tables) -> None:
    first = next(tables := iter(tables))
    opened = pq.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
    with opened(path, first.schema) as writer:
        writer.write_table(first)
        for each in tables:
            writer.write_table(each)


def _write_lines(path: Path, chunks) -> None:
    with open(path, "w", encoding="ascii") as stream:
        for lines in chunks:
            stream.write("\n".join(lines) + "\n")


def _vw_text(X: np.ndarray, namespace: str, known: tuple | None) -> list[str]:
    """A line for each row: action:cost:probability |namespace f0:… f1:…."""
    label = [part for each in known for part in (_text(each), ":")][:-1] if known else []
    parts = [*label, f" |{namespace}"]
    for name, column in zip(COLUMNS, X.T, strict=True):
        parts += [f" {name}:", _text(column)]
    return pc.binary_join_element_wise(*parts, "").to_pylist()


def _text(column: np.ndarray) -> pa.Array:
    return pc.cast(pa.array(column), pa.string())


class FailedError(RuntimeError):
    """A command that did not end well: its status and its last words."""


def measured(*command: str | Path) -> dict[str, float]:
    """Wall and CPU seconds of a command, and the peak of its memory."""
    launched = [sys.executable, "-I", "-S", "-c", MEASURE, *map(str, command)]
    done = subprocess.run(launched, capture_output=True, text=True, check=True)
    code, wall, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    if code:
        raise FailedError(f"ended with {code}: {done.stderr.strip()[-200:]}")
    return {"wall": wall, "cpu": cpu, "MB": peak}


def by_vw(vw: tuple[str, str], world: World, files: dict, kind: str, form: str, passes: int) -> dict[str, object]:
    """Learn with VW, and judge its greedy policy, the only one that it has."""
    python, more = vw
    model, cache, said = (files[form].with_suffix(each) for each in (".model", ".cache", ".said"))
    command = ["--cb", form.rpartition("x")[2], "--cb_type", kind, "-d", files[form], "-f", model, "--quiet"]
    command += ["--cb_force_legacy"] if kind != "mtr" else []
    command += ["--passes", str(passes), "--cache_file", cache, "-k", "--holdout_off"] if passes > 1 else []
    used = measured(python, "-c", VW, *command, *more.split())
    measured(python, "-c", VW, "-t", "-i", model, "-d", files[f"fresh {form}"], "-p", said, "--quiet")
    first = 0 if kind == "mtr" else 1  # VW counts from 0 where it goes by --cb_adf
    chosen = world.vw_actions(form, np.loadtxt(said, dtype=int) - first)
    for each in (model, cache, said):
        each.unlink(missing_ok=True)
    return {**used, "greedy": world.cost(chosen)}


def by_drcrm(world: World, files: dict, form: str) -> dict[str, object]:
    """Learn with drcrm, and judge its policy as it draws, and its most probable actions."""
    log = files[form]
    config, output = log.with_suffix(".mapping.json"), log.with_suffix(".policy.npz")
    mapping = {**world.mapping, "propensity": "p", "reward": "click", "features": {"numeric": COLUMNS}}
    config.write_text(json.dumps(mapping), encoding="utf-8")
    used = measured(sys.executable, "-m", "drcrm", "learn", log, "--config", config, "--output", output)
    stored = read_policy(output)
    names = [int(str(each).removeprefix("y")) for each in stored.encoding.names]
    assert names == [*range(len(names))]
    [(X, *_)] = context_batches(files["fresh"], stored.encoding, FRESH)
    policy = world.drawn(stored.policy.marginals(X))
    drawn = (policy * world.fresh[1]).sum(axis=1).mean()
    said = stored.header["verdict"]["verdict"]
    return {**used, "greedy": world.cost(policy.argmax(axis=1)), "drawn": drawn, "note": said}


def runs(world: World, rows: int, learners: list[str], options: argparse.Namespace) -> pd.DataFrame:
    """All runs on one log, with the truth beside them."""
    files, found = world.files(options.work, rows), []

    def add(words: str, learn, *arguments, **known) -> None:
        try:
            row = learn(*arguments)
        except FailedError as error:
            row = {"wall": np.nan, "note": str(error)}
        found.append({"learner": words, **known, **row})
        print(json.dumps({"kind": world.kind, "rows": rows, **found[-1]}), file=sys.stderr, flush=True)

    for learner in learners:
        name, how = learner.split("-")
        if name == "drcrm":
            add(f"drcrm {how}", by_drcrm, world, files, how)
            continue
        for form, words in world.forms.items():
            if options.forms and form not in options.forms:
                continue
            for passes in options.passes:
                arguments = (options.vw, options.vw_options), world, files, how, form, passes
                add(f"vw {how}{words}", by_vw, *arguments, type=how, passes=passes)
    truth = world.references()
    frame = pd.concat([truth, pd.DataFrame(found)]).assign(kind=world.kind, rows=rows)
    none, best = truth["drawn"].iloc[0], truth["greedy"].iloc[-1]
    return frame.assign(closed=(none - frame["greedy"]) / (none - best), **{"rows/s": rows / frame["wall"]})


def shown(found: pd.DataFrame) -> pd.DataFrame:
    """Of each learner the fewest passes near its best; of VW's two ways to have labels the better is marked."""
    kept = []
    for _, each in found.groupby(["kind", "rows", "learner"], sort=False):
        cost = each["greedy"]
        kept.append(each[~(cost > cost.min() + NEAR * abs(cost.min()))].head(1))
    table = pd.concat(kept, ignore_index=True).reindex(columns=[*SHOWN, "type"]).astype({"note": object})
    labels = table[table["kind"].eq(Labels.kind) & table["greedy"].notna()]
    table.loc[labels.groupby(["rows", "type"])["greedy"].idxmin(), "note"] = "<"
    return table[SHOWN]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=[100_000], metavar="ROWS")
    options.add_argument("--kinds", nargs="+", choices=WORLDS, default=list(WORLDS))
    options.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    options.add_argument("--forms", nargs="+", help="of those in which VW is given labels, by default all: 32 5x2")
    options.add_argument("--passes", nargs="+", type=int, default=PASSES, help="of VW (1 2 4 8)")
    options.add_argument("--sharpness", type=float, default=1.0, help="what the scores of π0 are multiplied by (1)")
    options.add_argument("--vw", default=sys.executable, metavar="PYTHON", help="a Python that has vowpalwabbit")
    options.add_argument("--vw-options", default="", metavar="TEXT", help="more options for all that VW learns")
    options.add_argument("--work", type=Path, default=Path("results/scale"), metavar="FOLDER", help="for logs")
    options.add_argument("--output", type=Path, default=OUTPUT)
    given = options.parse_args()
    found = []
    for rows in given.sizes:
        for kind in given.kinds:
            found.append(runs(WORLDS[kind](given.sharpness), rows, given.learners, given))
    every = pd.concat(found, ignore_index=True)
    table = shown(every)
    with atomic(given.output) as part:
        every.to_json(part, orient="records", indent=1, force_ascii=False)
    table.to_csv(given.output.with_suffix(".csv"), index=False, float_format="%.4f")
    print(table.to_string(index=False, na_rep="", float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
