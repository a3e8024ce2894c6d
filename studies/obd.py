"""What 10 000 rows of a real log with some 50 clicks can say: the samples of the Open Bandit Dataset.

A fashion shop showed items in three positions, chosen by Bernoulli Thompson sampling (``bts``) or at random, side by
side, to men and to women: four files of 10 000 rows, one item in one position each. A policy is learned from one log as
``drcrm learn`` does (a quarter of the rows is held out, and chooses among what an algorithm fitted), and judged on all
rows of the other, as ``drcrm evaluate_policy`` does: from bts's log, judged on the random one, and the other way
round. Features are the four of the user, and the position. The affinities of users and items are not used.

Beside the algorithms of the configuration, from the same log:

bts, random       the two policies that logged, by their own average: there is nothing to estimate
imitation         of the policy that logged what was learned from: what ``drcrm learn`` keeps where nothing is shown
best item         in each position the item of the highest click rate, of those shown there at least 30 times

A row per set, log that was learned from, and policy. ``ips``, ``snips`` and ``dr`` are click rates with 95 % intervals,
not clipped; the cost model of ``dr`` is of the log learned from. ``more`` is how much more than bts is clicked: where
bts logged the rows of the judge by paired differences of ``dr``, else of two samples. ``clicks`` are as many clicks of
equal weight as the estimate by weights rests on, (Σ w)²/Σ w² over rows that were clicked. ``shown`` says whether the
part held out showed a candidate of the algorithm to be better than what logged, ``verdict`` what all rows of the judge
say of the policy beside the one that logged them, at the level of as many choices as there are policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.cli.candidates import AlgorithmResult, algorithm_entries, fit_candidates
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnosis import LogDetails, diagnose
from drcrm.diagnostics.propensity_audit import cross_fit_propensities
from drcrm.diagnostics.verdict import ComparisonSettings, compare_with_logging, estimate_values, reach_verdict
from drcrm.logs.encoding.registry import Encoding
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import OpenedLog, open_log, split_log
from drcrm.policies.exponential import make_policy
from drcrm.policies.linear_predictor import forward_policy, importance_weights

SETS = "men", "women"
BTS, RANDOM = "bts", "random"
LEAST_SHOWN = 30
CONFIDENCE = 0.95
SHOWN = "ips", "snips", "dr"


@dataclass(frozen=True)
class Judge:
    """The log that policies are judged on, and of how many each is one."""

    part: OpenedLog
    choices: int

    @cached_property
    def modelled(self) -> np.ndarray:
        return cross_fit_propensities(self.part.log)

    def says(self, policy, model) -> dict[str, object]:
        """Click rates of a policy, what they rest on, and the verdict beside the policy that logged."""
        log = self.part.log
        diagnosis = diagnose(
            log,
            policy,
            LogDetails(slices=self.part.records.row_slices),
            cost_model=model,
            modelled=self.modelled,
        )
        comparison = compare_with_logging(
            policy, log, ComparisonSettings(choices=self.choices), cost_model=model, groups=diagnosis.units
        )
        found = estimate_values(policy, log, cost_model=model, groups=diagnosis.units)
        more = comparison.difference
        return {
            **{key: value for name in SHOWN for key, value in rates(name, found[name]).items()},
            **{"more": -more, "more_low": -more.high, "more_high": -more.low},
            "clicks": clicks_of_equal_weight(policy, log),
            "effective_size": more.effective_size,
            "mean_weight": more.mean_weight,
            "failed": "; ".join(diagnosis.failed),
            "verdict": reach_verdict(comparison, diagnosis, reward=True).verdict,
        }


def rates(name: str, found: Mapping | None) -> dict[str, float]:
    """An estimated cost as a click rate, with its interval."""
    ends = (np.nan,) * 3 if found is None else (0 - found["value"], 0 - found["high"], 0 - found["low"])
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def clicks_of_equal_weight(policy, log) -> float:
    """(Σ w)²/Σ w² of the rows that were clicked; 0 where none has a weight."""
    _, log_prob, _ = forward_policy(policy, log)
    weight = importance_weights(log_prob, log)[log.cost < 0]
    return float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0


def own_average(part: OpenedLog) -> dict[str, object]:
    """The click rate of the policy that logged."""
    found = off_policy_value(part.log.propensity, part.log, clip=None, confidence=CONFIDENCE)
    return rates("ips", found.as_dict()) | {"clicks": float((part.log.cost < 0).sum())}


def best_items(log: BanditLog, positions: np.ndarray) -> dict[str, int]:
    """Of each position the item of the highest click rate, of those shown there at least 30 times, or most often."""
    found = {}
    for position in np.unique(positions):
        rows = positions == position
        shown, clicked = (np.bincount(log.Y[rows], of, log.actions.shape[0]) for of in (None, -log.cost[rows]))
        enough = shown >= min(LEAST_SHOWN, shown.max())
        found[position] = int(np.argmax(np.where(enough, clicked / np.maximum(shown, 1), -1)))
    return found


def always(items: Mapping[str, int], part: OpenedLog) -> np.ndarray:
    """The policy of one item in each position, (m, K): of a position that has none any item."""
    mean = np.full((part.log.n_contexts, part.log.actions.shape[0]), 1 / part.log.actions.shape[0])
    for position, item in items.items():
        mean[part.records.row_slices == position] = np.eye(part.log.actions.shape[0])[item]
    return mean


def read(path: Path, encoding: Encoding) -> OpenedLog:
    return open_log(path, as_mapping(None), lambda _: None, None, encoding)


def path_of(resources: Path, policy: str, of: str) -> Path:
    return resources / f"{policy}_{of}.csv.bz2"


def learned(resources: Path, policy: str, of: str, algorithms: Mapping) -> tuple[OpenedLog, list[AlgorithmResult]]:
    """The log that is learned from, and what each algorithm makes of it, as by ``drcrm learn``."""
    path = path_of(resources, policy, of)
    log = split_log(path, as_mapping(None), 0, lambda _: None)
    entries = algorithm_entries([{**entry, "name": name} for name, entry in algorithms.items()], log.train.n_contexts)
    return read(path, log.train.encoding), fit_candidates(log.train, log.heldout.log, entries, lambda _: None)


def rows(resources: Path, of: str, source: str, other: str, algorithms: Mapping) -> Iterator[dict[str, object]]:
    """The rows of one set, learned from one log and judged on the other."""
    whole, found = learned(resources, source, of, algorithms)
    part = read(path_of(resources, other, of), whole.log.encoding)
    judge, model = Judge(part, len(found) + 2), found[0].model
    own = {source: own_average(whole), other: own_average(part)}
    keys = {"set": of, "learned": source, "judged": other}
    for name in (BTS, RANDOM):
        yield {**keys, "policy": name, **own[name]}
    imitation = make_policy(whole.log.actions, model.logging_policy.coef)
    given = {"imitation": imitation, "best item": always(best_items(whole.log, whole.records.row_slices), part)}
    policies = {name: (policy, model, {}) for name, policy in given.items()}
    for each in found:
        chosen = {"shown": each.is_shown, "step": each.step, "ridge": each.ridge, "value": each.value}
        policies[each.entry.name] = each.policy, each.model, chosen
    for name, (policy, known, chosen) in policies.items():
        row = judge.says(policy, known)
        yield {**keys, "policy": name, **row, **(beside(row, own[BTS]) if other == RANDOM else {}), **chosen}


def beside(row: Mapping, own: Mapping) -> dict[str, float]:
    """How much more than bts is clicked, by two samples."""
    deviations = [of[f"{name}_high"] - of[f"{name}_low"] for name, of in (("dr", row), ("ips", own))]
    more, half = row["dr"] - own["ips"], np.hypot(*deviations) / 2
    return {"more": more, "more_low": more - half, "more_high": more + half}


def table(resources: Path, algorithms: Mapping) -> pd.DataFrame:
    """A row per set, log that was learned from, and policy."""
    pairs = [(of, *pair) for of in SETS for pair in ((BTS, RANDOM), (RANDOM, BTS))]
    return pd.DataFrame([row for pair in pairs for row in rows(resources, *pair, algorithms)])


def summary(rows: pd.DataFrame) -> str:
    """Click rates in %, their intervals, and the verdicts."""
    shown = rows[["set", "learned", "policy", "clicks", "effective_size"]].round(1)
    for name in (*SHOWN, "more"):
        ends = (100 * rows[[name, f"{name}_low", f"{name}_high"]]).to_numpy()
        shown[name] = [f"{value:.2f} ({low:.2f} to {high:.2f})" for value, low, high in ends]
    return shown.assign(shown=rows["shown"], verdict=rows["verdict"]).to_string(index=False)
