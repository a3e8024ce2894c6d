"""What do 10 000 rows of a real log with some 50 clicks show? The samples of the Open Bandit Dataset.

A fashion shop showed items to men and to women in three positions. Bernoulli Thompson sampling (``bts``) or a uniform
policy (``random``) chose the items, in the same weeks. Each of the four files has 10 000 rows, a row for one item in
one position. The study learns a policy from one log like ``drcrm learn``: a quarter of the rows is held out and selects
a candidate. It evaluates the policy on all rows of the other log like ``drcrm evaluate_policy``. It does so in both
directions. The features are the four of the user, and the position. The affinities of users and items are not used.

Baselines for the algorithms of the configuration:

bts, random       the two logging policies, by the average of the log that each of them wrote
imitation         a clone of the logging policy that was learned from; ``drcrm learn`` returns it if no candidate is
                  shown to be better
best item         in each position the item with the highest click rate, among the items shown there at least 30 times

The table has a row per set, training log and policy. ``ips``, ``snips`` and ``dr`` are click rates with 95 % intervals,
without clipping; the cost model of ``dr`` comes from the training log. ``more`` is the click rate minus that of bts, by
paired differences of ``dr`` if bts logged the evaluation rows, else by two samples. ``clicks`` is the effective number
of clicks, (Σ w)²/Σ w² over clicked rows. ``shown`` is whether the held-out rows showed a candidate of the algorithm to
be better than the logging policy. ``verdict`` compares the policy with the logging policy on all evaluation rows. Its
level is adjusted for the number of policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.logs.decisions.candidates import fit_candidates, read_algorithms
from drcrm.logs.decisions.judgement import EvaluatedPolicy
from drcrm.logs.decisions.opened_log import OpenedLog, open_log
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging, estimate_values
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.logs.diagnostics.comparison.verdict import Bounds, decide
from drcrm.logs.diagnostics.diagnosis import Diagnosis, check_log, diagnose
from drcrm.logs.encoding.base import Encoding
from drcrm.mapping.log_mapping import as_mapping
from drcrm.policies.exponential import make_policy
from drcrm.policies.prepared_log import importance_weights
from drcrm.policies.tabular import policy_for_log

SETS = "men", "women"
BTS, RANDOM = "bts", "random"
MIN_SHOWN = 30
CONFIDENCE = 0.95
ESTIMATES = "ips", "snips", "dr"


@dataclass(frozen=True)
class Evaluation:
    """The log that policies are evaluated on, and the number of policies."""

    part: OpenedLog
    choices: int

    @cached_property
    def checks(self) -> Diagnosis:
        return check_log(self.part.evaluated)

    def evaluate(self, policy, model) -> dict[str, object]:
        """Return click rates of a policy, their effective sample sizes, and the verdict."""
        log = self.part.evaluated
        diagnosis = diagnose(log, policy, self.checks, cost_model=model)
        settings = ComparisonSettings(choices=self.choices)
        comparison = compare_with_logging(policy, log.with_groups(diagnosis.units), settings, cost_model=model)
        estimates = estimate_values(comparison.evaluation)
        more = comparison.difference
        return {
            **{key: value for name in ESTIMATES for key, value in click_rates(name, estimates[name]).items()},
            **{"more": -more, "more_low": -more.high, "more_high": -more.low},
            "clicks": effective_clicks(policy, log),
            "effective_size": more.effective_size,
            "mean_weight": more.mean_weight,
            "failed": "; ".join(check.name for check in diagnosis.failed),
            "verdict": decide(diagnosis.diagnostics, Bounds.of(comparison)).name,
        }


def click_rates(name: str, estimate: Interval | None) -> dict[str, float]:
    """Return an estimated cost as a click rate with its interval."""
    values = (np.nan,) * 3 if estimate is None else [0 - float(end) for end in (estimate, estimate.high, estimate.low)]
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def effective_clicks(policy, log) -> float:
    """Return (Σ w)²/Σ w² over clicked rows; 0 if their weights are 0."""
    log_prob = policy_for_log(policy, log).log_prob_of_rows(log)
    weight = importance_weights(log_prob, log)[log.cost < 0]
    return float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0


def logged_average(part: OpenedLog) -> dict[str, object]:
    """Return the click rate of the logging policy."""
    value = off_policy_value(part.evaluated.propensity, part.evaluated, "ips", confidence=CONFIDENCE)
    return click_rates("ips", value) | {"clicks": float((part.evaluated.cost < 0).sum())}


def best_items(log: BanditLog, positions: np.ndarray) -> dict[str, int]:
    """Return the item with the highest click rate in each position, among items shown there at least 30 times.

    If no item was shown 30 times in a position, the items shown most often are compared.
    """
    best = {}
    for position in np.unique(positions):
        rows = positions == position
        weights = None, -log.cost[rows]
        shown, clicked = (np.bincount(log.Y[rows], weight, log.actions.shape[0]) for weight in weights)
        is_frequent = shown >= min(MIN_SHOWN, shown.max())
        best[position] = int(np.argmax(np.where(is_frequent, clicked / np.maximum(shown, 1), -1)))
    return best


def positions_of(log: BanditLog) -> np.ndarray:
    """Return the position of each row on the page, (n,)."""
    return log.rows.texts("slice 0")


def deterministic_policy(items: Mapping[str, int], part: OpenedLog) -> np.ndarray:
    """Return the probabilities of the policy with one item per position, (m, K); other positions draw any item."""
    mean = np.full((part.evaluated.n_contexts, part.evaluated.actions.shape[0]), 1 / part.evaluated.actions.shape[0])
    for position, item in items.items():
        mean[positions_of(part.evaluated) == position] = np.eye(part.evaluated.actions.shape[0])[item]
    return mean


def read_part(path: Path, encoding: Encoding) -> OpenedLog:
    return open_log(path, as_mapping(None), lambda _: None, None, encoding)


def path_of(resources: Path, policy: str, name: str) -> Path:
    return resources / f"{policy}_{name}.csv.bz2"


def learn(resources: Path, policy: str, name: str, algorithms: Mapping) -> tuple[OpenedLog, list[EvaluatedPolicy]]:
    """Return the training log, and the result of each algorithm, like in ``drcrm learn``."""
    path = path_of(resources, policy, name)
    opened = open_log(path, as_mapping(None), lambda _: None, seed=0)
    train = opened.train
    entries = [{**entry, "name": key} for key, entry in algorithms.items()]
    mapping = as_mapping({"algorithm": entries, "explore": 0})
    selection = fit_candidates(opened, read_algorithms(mapping), lambda _: None)
    return read_part(path, train.encoding), selection.policies


def rows(resources: Path, name: str, source: str, target: str, algorithms: Mapping) -> Iterator[dict[str, object]]:
    """Yield the rows of one set, learned from the log of ``source`` and evaluated on the log of ``target``."""
    training, results = learn(resources, source, name, algorithms)
    part = read_part(path_of(resources, target, name), training.evaluated.encoding)
    evaluation, model = Evaluation(part, len(results) + 2), results[0].cost_model
    averages = {source: logged_average(training), target: logged_average(part)}
    keys = {"set": name, "learned": source, "judged": target}
    for policy in (BTS, RANDOM):
        yield {**keys, "policy": policy, **averages[policy]}
    best_item = deterministic_policy(best_items(training.evaluated, positions_of(training.evaluated)), part)
    policies = {
        "imitation": (make_policy(training.evaluated.actions, model.logging.policy.coef), model, {}),
        "best item": (best_item, model, {}),
    }
    for result in results:
        settings = {name: result.settings.get(name, np.nan) for name in ("step", "ridge", "value")}
        policies[result.name] = result.policy, result.cost_model, {"shown": result.is_shown, **settings}
    for label, (policy, policy_model, selected) in policies.items():
        row = evaluation.evaluate(policy, policy_model)
        unpaired = unpaired_difference(row, averages[BTS]) if target == RANDOM else {}
        yield {**keys, "policy": label, **row, **unpaired, **selected}


def unpaired_difference(row: Mapping, bts: Mapping) -> dict[str, float]:
    """Return the click rate minus that of bts, by two samples."""
    widths = [row["dr_high"] - row["dr_low"], bts["ips_high"] - bts["ips_low"]]
    more, half = row["dr"] - bts["ips"], np.hypot(*widths) / 2
    return {"more": more, "more_low": more - half, "more_high": more + half}


def measure(repetition: int, resources: Path, algorithms: Mapping) -> Iterator[dict[str, object]]:
    """Yield a row per set, training log and policy."""
    for name in SETS:
        for source, target in ((BTS, RANDOM), (RANDOM, BTS)):
            yield from rows(resources, name, source, target, algorithms)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return click rates in %, their intervals, and the verdicts."""
    cells = table[["set", "learned", "policy", "clicks", "effective_size"]].round(1)
    for name in (*ESTIMATES, "more"):
        ends = (100 * table[[name, f"{name}_low", f"{name}_high"]]).to_numpy()
        cells[name] = [f"{value:.2f} ({low:.2f} to {high:.2f})" for value, low, high in ends]
    return cells.assign(shown=table["shown"], verdict=table["verdict"])
