"""A row of the matrix as a question: a fixed policy, the files of it and of the log, and the answers of the commands.

A policy is a function of the context, whatever the encoding of a format is. ``drcrm learn`` writes a file for each kind
of action and format. The encoding of an earlier log then replaces its encoding. New coefficients give the scores of the
function with this encoding.
"""

from __future__ import annotations

import json
import tempfile
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from drcrm import read_log
from drcrm.logging_policy import LoggingPolicy
from drcrm.logs.policy_file import StoredPolicy, read_policy, write_policy
from drcrm.mapping.log_mapping import as_mapping
from matrix.commands import Answer, run
from matrix.logs import EARLIER, SmallLog, draw_log, linear_scores, list_orders, mapping_of, probabilities, write_log
from matrix.options import Row

MINE, OTHER = 11, 12  # seeds of the policy to evaluate and of the baseline
LOGGING = 1  # seed of the logging policy
SIZE, SHARE = 1.0, 0.1  # of the coefficients, and of uniform actions


def policy_scores(log: SmallLog, seed: int = MINE) -> np.ndarray:
    """Return the scores of a fixed policy, (n, 3), or (n, 2) for labels."""
    return linear_scores(log.phi, seed, log.logging.shape[1], SIZE)


def policy_probabilities(log: SmallLog, seed: int = MINE) -> np.ndarray:
    """Return the fixed policy's probability of each logged action, from numpy alone."""
    return probabilities(policy_scores(log, seed), log.row.kind == "labels", SHARE, log.action)


def model_effects(log: SmallLog) -> np.ndarray:
    """Return the costs of a fixed cost model, inside the range of the costs; for labels, effects and a constant."""
    low, high = log.cost_range
    tilt = np.tanh(linear_scores(log.phi[:, -1:], 13, 3, 1.0)) + linear_scores(log.phi, 14, 3, 0.1)
    if log.row.kind == "labels":
        return (high - low) * 0.1 * tilt + [0, 0, (high + low) / 2]
    return (high + low) / 2 + (high - low) * 0.2 * tilt


def write_fixed_policies(
    log: SmallLog, folder: Path, seeds: tuple[int, ...] = (MINE, OTHER), earlier: SmallLog | None = None
) -> list[Path]:
    """Write the files of fixed policies for the format of a log, and return their paths."""
    earlier = earlier or earlier_log(log)
    [path] = write_log(earlier, folder)
    mapping, paths = mapping_of(earlier), []
    stored, encoded = learned_policy(log.row.kind, log.row.format), read_log(path, mapping)
    algorithm = {key: stored.header["algorithm"][key] for key in ("name", "label")}  # the policy is not that of a fit
    header = {**stored.header, "mapping": as_mapping(mapping).as_dict(), "algorithm": algorithm}

    def solve(scores: np.ndarray) -> np.ndarray:
        return solve_coefficients(encoded.X, in_file_order(earlier, scores))

    def linear(seed_scores: np.ndarray, share: float) -> Any:
        return type(stored.policy)(solve(seed_scores)).with_exploration(share)

    logging_scores = earlier.logging if log.row.propensity != "rule" else 0 * policy_scores(earlier)
    model = stored.model and replace(
        stored.model,
        model=_fixed_model(stored.model.model, solve(model_effects(earlier))),
        logging=LoggingPolicy(linear(logging_scores, 0.0), stored.model.logging.support, is_approximate=True),
        limits=log.cost_range if log.row.kind != "labels" else tuple(np.array([-1, 1]) * np.ptp(log.cost_range)),
    )
    for seed in seeds:
        scores = earlier.logging if seed == LOGGING else policy_scores(earlier, seed)
        policy = linear(scores, 0.3 if seed == LOGGING else SHARE)
        parts = {"policy": policy, "encoding": encoded.encoding, "model": model, "header": header, "cells": None}
        write_policy(folder / f"policy{seed}.npz", replace(stored, **parts))
        paths.append(folder / f"policy{seed}.npz")
    return paths


@cache
def learned_policy(kind: str, form: str) -> StoredPolicy:
    """Return the policy that ``drcrm learn`` writes for a kind of action and a format."""
    log = draw_log(Row(kind=kind, format=form), EARLIER, seed=2)
    with TemporaryDirectory() as folder:
        output = Path(folder) / "learned.npz"
        [path] = write_log(log, Path(folder) / "log")
        run("learn", path, "--config", json.dumps(mapping_of(log)), "--output", output)
        return read_policy(output, with_rows=True)


def earlier_log(log: SmallLog) -> SmallLog:
    """Return an earlier log, of plain rows, with the format, the names and the costs' range of a log."""
    row = log.row._replace(units="rows", shift="none", guardrail="none", extra="none", files="one")
    earlier, (low, high) = draw_log(row, EARLIER, seed=1), log.cost_range
    share = (earlier.cost - earlier.cost_range[0]) / np.ptp(earlier.cost_range)
    cost = earlier.cost if log.cost_range == earlier.cost_range else low + share * (high - low)
    same = {name: getattr(log, name) for name in ("cost_range", "names", "is_reward", "is_nested")}
    return replace(earlier, cost=cost, **same)


def in_file_order(log: SmallLog, values: np.ndarray) -> np.ndarray:
    """Return values of contexts and actions in the order of X: for lists a vector, in their order of the file."""
    if log.row.kind == "lists":
        return np.take_along_axis(values, list_orders(log), axis=1).ravel()
    if log.row.kind == "single" and log.row.is_table:
        return values[:, np.argsort(log.names)]
    return values


def solve_coefficients(X: Any, scores: np.ndarray) -> np.ndarray:
    """Return the coefficients of these scores; an encoding that cannot express them is an error."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    coef = np.linalg.lstsq(X, scores, rcond=1e-10)[0]
    np.testing.assert_allclose(X @ coef, scores, rtol=0, atol=1e-8 * max(1, np.abs(scores).max()))
    return coef


def _fixed_model(model: Any, coef: np.ndarray) -> Any:
    fixed = copy(model)
    fixed.coef_, fixed.intercept_ = coef, np.zeros(coef.shape[1:])
    return fixed


@dataclass(eq=False)
class Case:
    """A question: certify a fixed policy on a small log.

    Attributes
    ----------
    row : Row
    folder : Path
        Folder for the files.
    """

    row: Row
    folder: Path

    def __post_init__(self) -> None:
        self._number = count()
        log = draw_log(self.row)
        self.log = replace(log, mine=policy_probabilities(log))

    @classmethod
    def of(cls, row: Row) -> Case:
        return cls(row, Path(tempfile.mkdtemp(prefix="matrix")))

    def new_folder(self) -> Path:
        return self.folder / str(next(self._number))

    @cached_property
    def policies(self) -> list[Path]:
        """Files of the policy and of the baseline."""
        return write_fixed_policies(self.log, self.new_folder())

    @cached_property
    def files(self) -> list[Path]:
        return write_log(self.log, self.new_folder())

    @cached_property
    def answer(self) -> Answer:
        return self.ask(self.log)

    @property
    def numbers(self) -> dict[str, Any]:
        """The answer about the policy."""
        return self.answer.json["candidates"][0]

    def ask(
        self,
        log: SmallLog,
        command: str = "certify",
        policies: list[Path] | None = None,
        files: list[Path] | None = None,
        options: tuple[object, ...] | None = None,
        **mapping: Any,
    ) -> Answer:
        """Ask about a policy on another log, by default with the same policies, and return the answer."""
        row = log.row
        policies = policies or (self.policies if log.row.format in _family(self.row) else self.rewrite(log))
        if files is None:
            files = self.files if log is self.log else write_log(log, self.new_folder())
        policy = "column:mine" if row.reference == "column" else policies[0]
        options = options if options is not None else certify_options(row, policies[1])
        content = {key: value for key, value in mapping_of(log, **mapping).items() if value != "absent"}
        answer = run(command, policy, *files, "--config", json.dumps(content), *options)
        assert answer.status in (0, 3, 4), answer.error
        return answer

    def rewrite(self, log: SmallLog) -> list[Path]:
        """Return files of the same policies for a log with another format, other names or other costs."""
        return write_fixed_policies(log, self.new_folder(), (MINE, OTHER))


def _family(row: Row) -> tuple[str, ...]:
    """Return the formats that share a policy file."""
    return ("csv", "parquet", "jsonl", "frame") if row.is_table else (row.format,)


def certify_options(row: Row, baseline: Path) -> tuple[object, ...]:
    """Return the options of ``drcrm certify`` for a row."""
    options: list[object] = ["--baseline", baseline] if row.reference == "baseline" else []
    options += ["--anytime"] if row.is_watched else []
    options += ["--asymptotic"] if row.look == "asymptotic" else []
    return tuple(options + (["--estimate", row.estimate] if row.estimate != "auto" else []))
