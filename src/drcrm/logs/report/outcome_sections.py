"""Sections of the report on other outcomes and on parts of the log: guardrails, slices and periods."""

from functools import partial

from drcrm.arrays.number_formats import (
    DASH,
    decimals_for,
    format_count,
    format_number,
    format_share,
    is_number,
    plural,
    typeset_sign,
)
from drcrm.logs.diagnostics.formats import clean
from drcrm.logs.diagnostics.units import Units
from drcrm.logs.report.answer import Answer
from drcrm.logs.report.charts import Scale, gauge
from drcrm.logs.report.sections import MAX_ROWS, Cell, Section, Table, name_cell

LEVELS = {"holds": "good", "not shown": "caution", "violated": "fail"}  # status → style of a level


def guardrail_rows(answer: Answer) -> list[dict[str, Cell]]:
    """Return the difference of each outcome from the logging policy, its bound and its margin."""
    rows = []
    for rail in answer.items("guardrails"):
        units, part = Units(bool(rail["reward"])), rail["difference"]
        difference, bound, margin = (
            units.interval(part),
            units.convert(part.get("lower_bound" if rail["status"] == "violated" else "bound")),
            units.convert(rail["margin"]),
        )
        decimals = decimals_for([part.get("standard_error")], [part.get("value")])
        show = partial(format_number, decimals=decimals, sign=True)
        condition = typeset_sign(clean(rail["condition"]))
        side = "at least" if units.is_reward == (rail["status"] != "violated") else "at most"
        is_relative = "%" in condition and is_number(margin)
        rows.append(
            {
                "": Cell(rail["status"], "level", style=LEVELS[rail["status"]]),
                "Guardrail": name_cell(rail["name"]),
                "Outcome": name_cell(rail["outcome"]),
                "Difference": Cell(show(difference.value), style="bold"),
                "Interval": Cell(
                    f"{show(difference.low)} to {show(difference.high)}" if difference.is_bounded else DASH
                ),
                "Certified": Cell(f"{side} {show(bound)}" if is_number(bound) else DASH),
                "Margin": Cell(f"{condition}, {show(margin)}" if is_relative else condition),
                "Why undecided": Cell(clean(rail.get("refused") or DASH), "sentence"),
            }
        )
    return rows


def guardrails(answer: Answer) -> Section:
    """Return the guardrails, and how many of them hold."""
    rows = guardrail_rows(answer)
    n_holding = sum(row[""].text == "holds" for row in rows)
    result = f"{n_holding} of {plural(len(rows), 'guardrail')} {'holds' if n_holding == 1 else 'hold'}"
    return {"table": Table.of(rows), "result": result} if rows else None


def parts(answer: Answer, kind: str) -> Section:
    """Return the policy's difference from the logging policy on each ``slice`` or in each ``period`` of the log."""
    listed, units = answer.items(f"{kind}s"), answer.units
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
                kind.capitalize(): name_cell(part.get(kind), clean(part.get("column") or "")),
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
    return {"table": Table.of(rows, scale=scale), "more": more, "result": plural(len(listed), kind)} if rows else None
