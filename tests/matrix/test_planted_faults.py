"""Each relation catches a fault that is planted in drcrm while it runs, and holds without it."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import matrix.computations  # noqa: F401, registers relations
from matrix.cases import Case
from matrix.options import Row
from matrix.relations import RELATIONS

SOURCE = Path(__file__).parents[2] / "src"


def plant(monkeypatch: Any, text: str, faulty: str) -> None:
    """Replace a text that occurs once in the source by a faulty one, in the code of the function around it."""
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    counts = {path: source.count(text) for path, source in sources.items() if text in source}
    assert sum(counts.values()) == 1, f"expected {text!r} once in src, found {counts}"
    [path] = counts
    right, wrong = (
        function_codes(compile(source, str(path), "exec", dont_inherit=True))
        for source in (sources[path], sources[path].replace(text, faulty))
    )
    name = next(name for name, code in right.items() if wrong[name] != code)
    function = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    for part in name.split("."):
        function = inspect.getattr_static(function, part)
    for wrapper in ("__func__", "fget", "func"):  # of class methods, properties and cached properties
        function = getattr(function, wrapper, None) or function
    monkeypatch.setattr(inspect.unwrap(function), "__code__", wrong[name])


def function_codes(code: CodeType) -> dict[str, CodeType]:
    """Return the code of the functions and methods of a module by qualified name, in their order."""
    codes: dict[str, CodeType] = {}
    for part in code.co_consts:
        if isinstance(part, CodeType):
            is_function = part.co_flags & inspect.CO_OPTIMIZED
            codes |= {part.co_qualname: part} if is_function else function_codes(part)
    return codes


SLICES = Row(features="categories", extra="slices", estimate="dr")
FAULTS = {  # the text, the faulty text, and the row whose relation catches it
    "another_table_format": (
        "yield flatten_objects(arrow.table(batch)).select(columns)",
        "yield flatten_objects(arrow.table(batch)).slice(1).select(columns)",
        Row(),
    ),
    "another_kind_of_file": ("0 - cost if is_reward else cost", "cost", Row(estimate="snips")),
    "another_number_of_files": (
        "for file in reader.files:\n        start = before",
        "for file in reader.files[:2]:\n        start = before",
        Row(estimate="snips"),
    ),
    "another_order": (
        "value - reference.value if z.any() else 0.0",
        "value - reference.value + 1e-6 * float(evaluation.log.cost[0] * evaluation.log.propensity[0])",
        Row(estimate="snips"),
    ),
    "other_names": (
        "places = pd.Index([*map(str, names)]).get_indexer(appeared)",
        "places = np.arange(len(appeared))",
        Row(features="categories", estimate="snips"),
    ),
    "each_row_is_a_group": (
        "mean + np.bincount(index, count * (z - mean)) * (size / n)",
        "mean + np.bincount(index, count * (z - mean)) * (size / n) ** 2 * 1.02",
        Row(estimate="snips"),
    ),
    "known_propensities_as_a_column": (
        "(1 - self.exploration) * follows + explored",
        "self.exploration * follows + explored",
        Row(propensity="rule", estimate="snips"),
    ),
    "weights_in_a_column_for_each_action": (
        "booleans=booleans) for name in columns])",
        "booleans=booleans) for name in sorted(columns)])",
        Row(propensity="weights", estimate="snips"),
    ),
    "nested_candidates": (
        "is_chosen[starts[:-1] + places.astype(int)] = 1",
        "is_chosen[starts[1:] - 1 - places.astype(int)] = 1",
        Row(kind="lists", format="jsonl", estimate="snips"),
    ),
    "mixture_of_one_policy": (
        "self._join([log_prob for log_prob, _ in parts]), components",
        "self._join([1.1 * log_prob for log_prob, _ in parts]), components",
        Row(estimate="snips"),
    ),
    "reward_is_minus_cost": (
        '_numbers_of_key(frame, mapping, "cost") if reward is None',
        '-_numbers_of_key(frame, mapping, "cost") if reward is None',
        Row(outcome="revenue", estimate="snips"),
    ),
    "other_units_of_costs": (
        "return ratio, self.cost - ratio",
        "return 0.0, self.cost",
        Row(outcome="revenue", estimate="snips"),
    ),
    "lists_of_the_same_actions": (
        "return self.starts[context] + Y",
        "return self.starts[context] + (Y + 1) % 3",
        Row(estimate="snips"),
    ),
    "policy_is_its_own_baseline": (
        "value - reference.value if z.any() else 0.0",
        "value - float(evaluation.log.cost.mean())",
        Row(estimate="snips"),
    ),
    "logging_policy_differs_by_zero": (
        "policy = TabularPolicy.for_log(self.log.log_propensity, None, self.log)",
        "policy = TabularPolicy.for_log(0.9 * self.log.log_propensity, None, self.log)",
        Row(estimate="snips"),
    ),
    "estimates_by_numpy": (
        "limited(limit) if limited else weight or entry.default_weight(self.log.size)",
        "Clipped(2.0)",
        Row(estimate="snips"),
    ),
    "looks_are_about_the_mean_per_row": (
        "origin = float(log.count @ log.cost / log.size) if origin is None else origin",
        "origin = 0.0",
        Row(units="groups_unequal", look="asymptotic", estimate="ips"),
    ),
    "commands_agree_with_the_library": (
        "choices = settings.divisor * (2 if is_lower else 1)",
        "choices = 2 * settings.divisor * (2 if is_lower else 1)",
        Row(estimate="snips"),
    ),
    "estimates_are_inside_their_bounds": (
        "return -np.inf if certificate is None else certificate.bound",
        "return -np.inf if certificate is None else -certificate.bound",
        Row(guardrail="absolute", estimate="snips"),
    ),
    "slices_add_up": (
        'kept = np.argsort(-np.bincount(index, log.count), kind="stable")[:MAX_SLICES]',
        'kept = np.argsort(-np.bincount(index, log.count), kind="stable")[1:]',
        SLICES,
    ),
    "guardrail_is_an_outcome": (
        'log, forecasts = log.with_cost(np.array(log.column("guardrails")[:, place]))',
        'log, forecasts = log.with_cost(-np.array(log.column("guardrails")[:, place]))',
        Row(guardrail="absolute", estimate="ips"),
    ),
    "counts_are_copies": (
        "        return *values, count\n    index, n",
        "        return *values, np.ones(len(count))\n    index, n",
        Row(units="count", format="npz"),
    ),
    "kept_events_are_single_observations": (
        "        return as_mapped(rounded, weights), True",
        "        return as_mapped(rounded, weights), False",
        Row(kind="lists", format="dsjson", units="pdrop"),
    ),
    "decide_has_the_policys_probabilities": (
        "scaled = (value - self.mean) / self.scale",
        "scaled = (value + self.mean) / self.scale",
        Row(),
    ),
    "predict_has_the_policys_probabilities": (
        "_name_actions(stored, actions, options) | {PROPENSITY: propensity}",
        "_name_actions(stored, actions, options) | {PROPENSITY: propensity[::-1]}",
        Row(),
    ),
    "exported_scorer_has_the_policys_probabilities": (
        '"intercept": (policy.coef[-1] + policy.intercept).tolist()',
        '"intercept": policy.intercept.tolist()',
        Row(),
    ),
    "learn_tests_on_rows_that_follow": (
        "ends: Any = end + 1, end + count",
        "ends: Any = end, end + count",
        Row(validation="blocks"),
    ),
    "learn_does_not_depend_on_a_constant": (
        "effects[inside] = values",
        "effects[inside] = values / 2",
        Row(outcome="cost", validation="blocks"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_relation_catches_a_planted_fault(name, monkeypatch, tmp_path):
    text, faulty, row = FAULTS[name]
    check, applies = RELATIONS[name]
    assert applies(row)
    with monkeypatch.context() as planted:
        plant(planted, text, faulty)
        with pytest.raises(AssertionError):
            check(Case(row, tmp_path / "faulty"))
    check(Case(row, tmp_path / "right"))


def test_each_relation_has_a_fault():
    assert RELATIONS.keys() == FAULTS.keys()
