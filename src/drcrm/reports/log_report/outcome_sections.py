"""Sections of the report on the guardrails, which are further outcomes, and on slices and periods of the log."""

from collections.abc import Mapping

from drcrm.reports.log_report.answer import Answer, Interval
from drcrm.reports.log_report.charts import Scale, gauge
from drcrm.reports.log_report.formatting import (
    DASH,
    clean,
    clean_name,
    format_count,
    format_share,
    is_number,
    plural,
)
from drcrm.reports.log_report.sections import MAX_ROWS, Cell, Column, Section, Table

LEVELS = {"holds": "good", "not shown": "caution", "violated": "fail"}  # status → style of a level


def guardrails(answer: Answer) -> Section:
    """Return the guardrails: the difference of each outcome from the logging policy, its bound and its margin."""
    columns = [Column("", "level"), Column("Guardrail", "name"), Column("Outcome", "name"), Column("Difference")]
    columns += [Column("Interval"), Column("Certified"), Column("Margin"), Column("Why undecided", "sentence")]
    rows = []
    for rail in answer.guardrails:
        ends = [rail.format(end) for end in (rail.difference.low, rail.difference.high)]
        certified = f"{rail.units.side} {rail.format(rail.bound)}" if is_number(rail.bound) else DASH
        rows.append(
            [
                Cell(rail.status, style=LEVELS[rail.status]),
                Cell(clean_name(rail.name)),
                Cell(clean_name(rail.raw["outcome"])),
                Cell(rail.format(rail.difference.value), style="bold"),
                Cell(" to ".join(ends) if rail.difference.is_bounded else DASH),
                Cell(certified),
                Cell(rail.condition),
                Cell(clean(rail.raw.get("refused") or DASH)),
            ]
        )
    held = sum(rail.status == "holds" for rail in answer.guardrails)
    result = f"{held} of {plural(len(rows), 'guardrail')} {'holds' if held == 1 else 'hold'}"
    return {"table": Table.of(columns, rows), "result": result} if rows else None


def slices(answer: Answer) -> Section:
    """Return the policy's difference from the logging policy on each slice of the log."""
    return _parts(answer, "slice")


def periods(answer: Answer) -> Section:
    """Return the policy's difference from the logging policy in each period of the log."""
    return _parts(answer, "period")


def _parts(answer: Answer, kind: str) -> Section:
    parts, units = answer.items(f"{kind}s"), answer.units
    differences = [units.interval(part.get("difference")) for part in parts]
    values = [value for interval in differences for value in interval]
    scale = Scale.over(values, [0.0, *(interval.value for interval in differences)])
    columns = [Column(kind.capitalize(), "name"), Column("Difference", "picture"), Column("Estimate")]
    columns += [Column("Logging policy"), Column("Policy"), Column("Rows")]
    columns += [Column("Effective sample size"), Column("Policy's most frequent action", "name")]
    rows = [
        [
            Cell(clean_name(part.get(kind)), clean(part.get("column") or "")),
            Cell(chart=gauge(scale, difference, "blue", None, 0.0)),
            Cell(answer.format(difference.value, sign=True), _signed_interval(answer, difference), style="bold"),
            Cell(answer.format(units.convert(part.get("logging")))),
            Cell(answer.format(units.convert(part.get("policy"))), _own_interval(answer, part)),
            Cell(format_count(part.get("rows"))),
            Cell(format_count(part.get("effective_size"))),
            Cell(clean_name(part["action"]), format_share(part.get("share"))) if "action" in part else Cell(),
        ]
        for part, difference in zip(parts[:MAX_ROWS], differences, strict=False)
    ]
    more = plural(len(parts) - MAX_ROWS, f"other {kind}") if len(parts) > MAX_ROWS else ""
    view = {"table": Table.of(columns, rows, scale=scale), "more": more, "result": plural(len(parts), kind)}
    return view if parts else None


def _signed_interval(answer: Answer, interval: Interval) -> str:
    if not interval.is_bounded:
        return DASH
    return " to ".join(answer.format(end, sign=True) for end in (interval.low, interval.high))


def _own_interval(answer: Answer, part: Mapping) -> str:
    """Return the interval of the policy's own cost or reward in a part."""
    return answer.format_interval(answer.units.interval({**part, "value": part.get("policy")}), "")
