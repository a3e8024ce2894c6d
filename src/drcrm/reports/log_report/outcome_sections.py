"""Sections of the report about the guardrails, which are further outcomes."""

from drcrm.reports.log_report.answer import Answer
from drcrm.reports.log_report.formatting import DASH, clean, clean_name, is_number, plural
from drcrm.reports.log_report.sections import Cell, Column, Section, Table

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
