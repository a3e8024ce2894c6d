"""``drcrm plan``: which differences the next log can show, by its exploration rate and its number of rows."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.certificates.sample_size import POWER, OneLook, shrink_difference
from drcrm.certificates.terms.evaluation import LOGGING, EvaluationInputs
from drcrm.certificates.terms.policy_terms import TermBuilder
from drcrm.cli.common.answers import require_separate_outputs, write_answer
from drcrm.cli.evaluate_policy import PolicyOnLog, open_policy_on_log
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.exploration_plan import PlannedPolicy, plan_exploration, uniform_policy
from drcrm.errors import InputError
from drcrm.estimates import RATIO, default_estimate
from drcrm.policies.tabular import policy_for_log
from drcrm.progress import show_progress
from drcrm.reports.log_report.terminal import plan_text
from drcrm.version import __version__
from drcrm.weights import effective_sample_size


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    require_separate_outputs(options)
    with show_progress(options.verbose, options.jobs) as report, open_policy_on_log(options, report) as case:
        report("planning")
        with warnings.catch_warnings(action="ignore"):
            answer = _answer(case, options)
    write_answer(answer, options, plan_text)
    return 0


def _answer(case: PolicyOnLog, options: argparse.Namespace) -> dict[str, Any]:
    opened, log = case.opened, case.opened.evaluated
    tested, label = _hardest_action(log) if case.policy is None else _test_of_policy(case)
    cost = off_policy_value(uniform_policy(log), log, RATIO, baseline=LOGGING, groups=opened.units)
    rows, look = opened.checks.propensity.size, OneLook(1.0, options.confidence, options.choices)
    return {
        "command": "plan",
        "version": __version__,
        "log": opened.as_dict() | {"rows": rows},
        "reward": log.description.is_reward,
        "confidence": options.confidence,
        "choices": options.choices,
        "target_power": POWER,
        "tested": label | {"effective_size": effective_sample_size(tested.weight, log.count)},
        "rows": case.rows,
        "uniform": cost.as_dict(),
        "expected": None if tested.gain is None else -tested.gain,
        "plans": plan_exploration(log, tested, look, rows, float(cost)),
    }


def _test_of_policy(case: PolicyOnLog) -> tuple[PlannedPolicy, dict[str, Any]]:
    """Return the terms of a policy and its description: by "dr" if it has a cost model, else by "snips".

    The difference is shrunk if the policy was chosen among several on these rows.
    """
    log, policy, groups = case.opened.evaluated, case.policy, case.opened.units
    model = policy.cost_model if policy_for_log(policy.policy, log).knows_all_actions else None
    estimate = default_estimate(model is not None)
    value = off_policy_value(policy.policy, log, estimate, baseline=LOGGING, cost_model=model, groups=groups)
    inputs = EvaluationInputs.create(policy.policy, log, None, None, None, model)
    terms = TermBuilder(inputs, estimate).with_support().terms(inputs.policy)
    expected = shrink_difference(float(value), value.standard_error) if case.choices > 1 else float(value)
    tested = PlannedPolicy(terms.weight, terms.modelled, terms.residual, gain=max(-expected, 0.0))
    spread = value.standard_error * np.sqrt(log.size) / tested.deviation(log, np.ones(len(log.Y)))
    description = {"policy": policy.label, "estimate": estimate, "difference": value.as_dict(), "choices": case.choices}
    return replace(tested, spread=float(spread) or 1.0), description


def _hardest_action(log: BanditLog) -> tuple[PlannedPolicy, dict[str, Any]]:
    """Return the terms of the policy that always takes one action, the one with the most variable terms, by "snips"."""
    if not log.actions.n_classes:
        raise InputError("plan needs --policy for label vectors and lists of actions, got only a log")
    policies = []
    for action in np.unique(log.Y):
        weight = np.where(action == log.Y, 1 / log.propensity, 0.0)
        value = log.count * weight @ log.cost / (log.count @ weight)
        policy = PlannedPolicy(weight, value, log.cost - value)
        policies.append((policy.deviation(log, np.ones(len(log.Y))), int(action), policy))
    _, action, hardest = max(policies, key=lambda entry: entry[:2])
    return hardest, {"action": str(log.encoding.names[action]), "estimate": RATIO}
