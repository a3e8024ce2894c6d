"""Text of a plan for the terminal: what exploration costs, and which differences the next log shows."""

from collections.abc import Mapping
from typing import Any

from drcrm.reports.log_report.answer import Units
from drcrm.reports.log_report.formatting import (
    clean,
    decimals_for,
    format_count,
    format_number,
    is_number,
    shorten,
)
from drcrm.reports.log_report.terminal import align, note_lines, wrap

MAX_ACTIONS = 6


def plan_text(answer: Mapping) -> str:
    """Return the plan: a summary, the cost of exploring, and the smallest differences.

    Parameters
    ----------
    answer : mapping
        The JSON answer of ``drcrm plan``.

    Returns
    -------
    str
        Lines of at most 100 columns unless a name is longer.
    """
    units, plans = Units(bool(answer["reward"])), answer["plans"]
    sizes = [size for plan in plans for size in plan["sizes"]]
    decimals = decimals_for([size["difference"] for size in sizes])
    blocks = [
        wrap(_summary(answer, units)),
        _exploration_lines(answer, units, decimals),
        _difference_lines(answer, decimals, "", "Smallest difference that is shown, with one look at the next log:"),
        _difference_lines(answer, decimals, "anytime_", "The same with looks after every row (certify --anytime):"),
        note_lines("Notes:", _notes(answer)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _summary(answer: Mapping, units: Units) -> str:
    """Return what is tested, on which rows, and the expected difference."""
    tested, log = answer["tested"], answer["log"]
    name = shorten(tested["policy"]) if "policy" in tested else f"always taking {shorten(tested['action'])!r}"
    rows = f"Plan for the log after {shorten(log['name'])} ({format_count(log['rows'])} rows). Tested: {name}"
    if "policy" not in tested:
        return f"{rows}, the single action that is hardest to test."
    difference = tested["difference"]
    sentence = f"{rows}. Its {units.name} minus the logging policy's is estimated as "
    sentence += format_number(units.convert(difference["value"]), sign=True)
    if tested["choices"] > 1:
        shrunk = format_number(units.convert(answer["expected"]), sign=True)
        sentence += f", shrunk to {shrunk} because {tested['choices']} candidates competed on these rows"
    return f"{sentence}."


def _exploration_lines(answer: Mapping, units: Units, decimals: int) -> list[str]:
    """Return the table of the cost of exploring and of the effective sample sizes at today's number of rows."""
    names = answer["log"]["actions"]
    rarest = sorted(range(len(names)), key=lambda action: answer["plans"][0]["actions"][action : action + 1])
    shown = sorted(rarest[:MAX_ACTIONS]) if answer["plans"][0]["actions"] else []
    header = ["exploring", f"{units.name}/row", "policy", *(shorten(names[action], 12) for action in shown)]
    rows = [
        [
            _rate(plan),
            format_number(units.convert(plan["cost"]), decimals + 1, sign=True),
            format_count(plan["effective_size"]),
            *(format_count(plan["actions"][action]) for action in shown),
        ]
        for plan in answer["plans"]
    ]
    title = "Cost of exploring, and effective sample sizes at today's number of rows (they grow with the rows):"
    return [title, *align(header, rows)]


def _difference_lines(answer: Mapping, decimals: int, key: str, title: str) -> list[str]:
    """Return the table of the smallest differences by rate and rows, with the power for the expected difference."""
    plans = answer["plans"]
    if any(size[f"{key}difference"] is None for plan in plans for size in plan["sizes"]):
        return []
    header = ["exploring", *(f"{format_count(size['rows'])} rows" for size in plans[0]["sizes"])]
    rows = []
    for plan in plans:
        cells = []
        for size in plan["sizes"]:
            power = f" ({100 * size[f'{key}power']:.0f} %)" if is_number(size[f"{key}power"]) else ""
            cells.append(format_number(size[f"{key}difference"], decimals) + power)
        rows.append([_rate(plan), *cells])
    return [title, *align(header, rows)]


def _notes(answer: Mapping) -> list[str]:
    """Return what the numbers mean, and what they lack."""
    power = f"{100 * answer['target_power']:g} %"
    notes = [f"{power} of all logs show a difference of the stated size. Evaluated on {clean(answer['rows'])}."]
    if answer["expected"]:
        notes.append("In brackets: the share of logs that show the expected difference.")
    if answer["plans"][0]["sizes"][0]["anytime_difference"] is None:
        notes.append("Bounds that hold at every look need cost_range in the mapping.")
    missing = [shorten(name) for name, share in zip(answer["log"]["actions"], answer["missing"], strict=False) if share]
    if missing:
        names = ", ".join(missing[:MAX_ACTIONS])
        notes.append(f"In some contexts the log lacks {names}, so the cost of exploring is uncertain there.")
    return notes


def _rate(plan: Mapping[str, Any]) -> str:
    return f"{100 * plan['rate']:g} %"
