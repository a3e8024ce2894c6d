"""Sections of the report on other outcomes and on parts of the log: guardrails, limits, slices, periods and blocks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.formats import (
    DASH,
    ConfidenceInterval,
    Units,
    clean,
    decimals_for,
    format_count,
    format_number,
    format_share,
    is_number,
    numbers,
    plural,
    shorten,
    typeset_sign,
)
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint, JudgedGuardrail, JudgedLimit
from drcrm.logs.report.answer import CONSTRAINTS, Answer
from drcrm.logs.report.charts import Scale, draw_tree, gauge
from drcrm.logs.report.charts import curve as draw_curve
from drcrm.logs.report.sections import MAX_ROWS, Cell, Section, Table, name_cell

if TYPE_CHECKING:
    from drcrm.logs.decisions.alternatives import LimitCurve

PLURALS = {"leaf": "leaves"}
LEVELS = {"holds": "good", "not shown": "caution", "violated": "fail"}  # status → style of a level


def guardrail_cells(rail: JudgedGuardrail) -> dict[str, Cell]:
    """Return the difference of an outcome from the logging policy, its bound and its margin."""
    guardrail, units = rail.constraint, Units(rail.constraint.is_reward)
    difference, margin, bound = (
        units.estimate(rail.estimate),
        units.convert(rail.allowed),
        units.convert(rail.certified),
    )
    decimals = decimals_for([rail.estimate.standard_error], [rail.estimate])
    show = partial(format_number, decimals=decimals, sign=True)
    condition = typeset_sign(clean(guardrail.describe_margin()))
    side = "at least" if units.is_reward != (rail.status == "violated") else "at most"
    is_relative = "%" in condition and is_number(margin)
    return {
        "Outcome": name_cell(guardrail.column),
        "Difference": Cell(show(difference.value), style="bold"),
        "Interval": Cell(f"{show(difference.low)} to {show(difference.high)}" if difference.is_bounded else DASH),
        "Certified": Cell(f"{side} {show(bound)}" if is_number(bound) else DASH),
        "Margin": Cell(f"{condition}, {show(margin)}" if is_relative else condition),
    }


def limit_cells(part: JudgedLimit) -> dict[str, Cell]:
    """Return the share or the mean price of a limit, its bound and the limit."""
    show, (low, high) = part.constraint.format, part.estimate.interval
    side = "at least" if part.status == "violated" else "at most"
    return {
        "Estimate": Cell(DASH if np.isnan(part.estimate) else show(float(part.estimate)), style="bold"),
        "Interval": Cell(DASH if np.isnan(low) else f"{show(low)} to {show(high)}"),
        "Certified": Cell(f"{side} {show(part.certified)}" if np.isfinite(part.certified) else DASH),
        "Allowed": Cell(f"at most {show(part.allowed)}"),
    }


CELLS: dict[type[JudgedConstraint], Callable[[Any], dict[str, Cell]]] = {
    JudgedGuardrail: guardrail_cells,
    JudgedLimit: limit_cells,
}


def constraint_rows(judged: Sequence[JudgedConstraint]) -> list[dict[str, Cell]]:
    """Return a row for each constraint: its status and name, the cells of its kind, and why it is undecided."""
    return [
        {
            "": Cell(part.status, "level", style=LEVELS[part.status]),
            part.TITLE: name_cell(part.constraint.name),
            **CELLS[type(part)](part),
            "Why undecided": Cell(clean(part.refusal or DASH), "sentence"),
        }
        for part in judged
    ]


def constraints(answer: Answer) -> list[dict[str, Any]]:
    """Return the tables of guardrails and limits, and how many of them hold."""
    tables = []
    for kind in CONSTRAINTS:
        if judged := answer.constraints(kind):
            n_holding, of = sum(part.status == "holds" for part in judged), plural(len(judged), kind.TITLE.lower())
            result = f"{n_holding} of {of} {'holds' if n_holding == 1 else 'hold'}"
            tables.append({"key": kind.KEY, "table": Table.of(constraint_rows(judged)), "result": result})
    return tables


def curve_rows(answer: Answer, curve: "LimitCurve") -> list[dict[str, Cell]]:
    """Return for each value of a limit or margin its use, and the gain of the tree within it."""
    units, rows = answer.units, []
    limit, used = ("Margin", "Difference") if curve.is_guardrail else ("Allowed", "Estimate")
    for cells, value, part in zip(constraint_rows(curve.judged), curve.values, curve.comparisons, strict=True):
        gain, bound = units.estimate(part.difference), units.convert(part.bounds[1])
        rows.append(
            {
                "Allowed": cells[limit]._replace(detail="in the mapping" if value == curve.own else ""),
                "Use": cells[used],
                "Use, certified": cells["Certified"],
                "Gain": Cell(answer.format(gain.value, sign=True), style="bold"),
                "Interval": Cell(answer.format_interval(gain, DASH, sign=True)),
                "Gain, certified": Cell(
                    f"{units.side} {answer.format(bound, sign=True)}" if is_number(bound) else DASH,
                    detail=clean(part.refusal),
                ),
            }
        )
    return rows


def curves(answer: Answer) -> list[Mapping[str, object]]:
    """Return for each limit and guardrail the picture and the table of the gain against its value."""
    views = []
    for curve in answer.curves:
        condition, is_rail = curve_rows(answer, curve)[0]["Allowed"].text, curve.is_guardrail
        factor, unit = (100.0, ", in %") if "%" in condition else (1.0, "")
        costs = {
            "blue": [part.difference for part in curve.comparisons],
            "grey": [part.bounds[1] for part in curve.comparisons],
        }
        lines = {
            style: [
                (factor * x, answer.units.convert(y)) for x, y in zip(curve.values, ys, strict=True) if is_number(y)
            ]
            for style, ys in costs.items()
        }
        name = f"{curve.name}, largest change for the worse{unit}" if is_rail else f"{curve.name}{unit}"
        drawn = {style: points for style, points in lines.items() if len(points) > 1}
        views.append(
            {
                "name": clean(curve.name),
                "quantity": clean(name),
                "chart": draw_curve(drawn, factor * curve.own) if "blue" in drawn else None,
                "table": Table.of(curve_rows(answer, curve)),
                "result": plural(len(curve.judged), "value"),
            }
        )
    return views


def parts(answer: Answer, kind: str) -> Section:
    """Return the policy's difference from the logging policy on each ``slice``, ``period`` or ``leaf`` of the log."""
    several = PLURALS.get(kind, f"{kind}s")
    listed, units = answer.tables.get(several, ()), answer.units
    differences = [units.interval(part.get("difference")) for part in listed]
    values = [value for interval in differences for value in interval]
    scale = Scale.over(values, [0.0, *(interval.value for interval in differences)])
    rows = []
    for part, difference in zip(listed[:MAX_ROWS], differences, strict=False):
        interval = units.interval({**part, "value": part.get("policy")})
        estimate, ends = answer.format(difference.value, sign=True), answer.format_interval(difference, DASH, sign=True)
        action = name_cell(part["action"], format_share(part.get("share"))) if "action" in part else Cell(kind="name")
        rows.append(
            {
                kind.capitalize(): Cell(clean(part["leaf"]), "sentence")
                if kind == "leaf"
                else name_cell(part.get(kind), clean(part.get("column") or "")),
                "Difference": Cell(kind="picture", chart=gauge(scale, difference, "blue", None, 0.0)),
                "Estimate": Cell(estimate, detail=ends, style="bold"),
                "Logging policy": Cell(answer.format(units.convert(part.get("logging")))),
                "Policy": Cell(answer.format(interval.value), detail=answer.format_interval(interval, "")),
                "Rows": Cell(format_count(part.get("rows"))),
                "Effective sample size": Cell(format_count(part.get("effective_size"))),
                "Policy's most frequent action": action,
            }
        )
    more = plural(len(listed) - MAX_ROWS, f"other {kind}") if len(listed) > MAX_ROWS else ""
    result = f"{format_count(len(listed))} {kind if len(listed) == 1 else several}"
    return {"table": Table.of(rows, scale=scale), "more": more, "result": result} if rows else None


def tree(answer: Answer) -> Section:
    """Return what the policy does: the picture of its tree, with sizes, actions and gains of the leaves."""
    part, units = answer.tables.get("explanation"), answer.units
    if not part:
        return None
    leaves = {leaf["leaf"]: leaf for leaf in answer.tables["leaves"]}
    differences = {name: units.interval(leaf["difference"]) for name, leaf in leaves.items()}
    values = [value for interval in differences.values() for value in interval]
    scale = Scale.over(values, [0.0, *(interval.value for interval in differences.values())])
    total, nodes = sum(numbers(leaf["rows"] for leaf in leaves.values())) or 1, []
    for node in part["nodes"]:
        entry = {**node, "text": clean(node["if"]) or "All rows", "action": ""}
        if "action" in node:
            leaf, change = leaves.get(node["leaf"], {}), differences.get(node["leaf"], ConfidenceInterval())
            [rows], share = numbers([leaf.get("rows")]) or [0], leaf.get("share")
            is_usual = leaf.get("action") == node["action"] and is_number(share)
            ends = answer.format_interval(change, "no interval", sign=True)
            entry |= {
                "action": shorten(node["action"], 44),
                "often": f"in {format_share(share)} of decisions" if is_usual else "",
                "size": f"{format_share(rows / total)} of the rows ({format_count(rows)})",
                "gain": f"{answer.format(change.value, sign=True)} ({ends})" if leaf else "",
                "share": rows / total,
                "gauge": gauge(scale, change, "blue", None, 0.0),
            }
        nodes.append(entry)
    is_leaf = len(nodes) == 1
    return {"picture": None if is_leaf else draw_tree(nodes, scale), "action": nodes[0]["action"]}


def blocks(answer: Answer) -> Section:
    """Return the difference of the policy of each block from the reference, in the order of the blocks."""
    listed, units = answer.blocks or (), answer.units
    differences = [units.interval({**block, "value": block.get("change")}) for block in listed]
    scale = Scale.over([value for interval in differences for value in interval], [0.0])
    rows = [
        {
            "Block": Cell(_describe_ends(block["first"], block["last"]), "name"),
            "Difference": Cell(kind="picture", chart=gauge(scale, difference, "blue", None, 0.0)),
            "Estimate": Cell(answer.format(difference.value, sign=True), style="bold"),
            "Interval": Cell(answer.format_interval(difference, DASH, sign=True)),
            "Rows": Cell(format_count(block.get("rows"))),
        }
        for block, difference in zip(listed, differences, strict=True)
    ]
    n_better = sum(is_number(block.get("change")) and block["change"] < 0 for block in listed)
    if not rows:
        return None
    mapping = answer.further.get("made", {}).get("mapping") or {}
    result = f"better in {n_better} of {len(rows)} blocks"
    return {"table": Table.of(rows, scale=scale), "result": result, "is_mixture": mapping.get("deploy") == "mixture"}


def _describe_ends(first: object, last: object) -> str:
    """Return the first and the last time of a block, or the first and the last place in the order of the blocks."""
    if isinstance(first, str) and isinstance(last, str):
        ends = [first, last] if first[:10] == last[:10] else [first[:10], last[:10]]
        return " to ".join(clean(end).replace("T", " ") for end in ends)
    if isinstance(first, int):
        return f"rows {format_count(first)} to {format_count(last)}"
    return f"{format_number(first)} to {format_number(last)}"
