"""Texts of an answer: its headline, sentences on the policy, and the whole text for the terminal."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from drcrm.arrays.formats import (
    DASH,
    JOINERS,
    clean,
    decimals_for,
    format_count,
    format_imputed,
    format_level,
    format_number,
    format_share,
    is_number,
    plural,
    quote_label,
    shorten,
)
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint
from drcrm.logs.diagnostics.comparison.reference import LOGGING_POLICY
from drcrm.logs.report.answer import CONSTRAINTS, Answer
from drcrm.logs.report.candidate import ESTIMATES
from drcrm.logs.report.outcome_sections import constraint_rows, curve_rows

if TYPE_CHECKING:
    from drcrm.logs.decisions.alternatives import LimitCurve

VERDICTS = {  # verdict → CSS class of the page's header, and title
    "better": ("better", "Better than the logging policy"),
    "not shown": ("open", "Not shown to be better"),
    "worse": ("worse", "Worse than the logging policy"),
    "the log cannot say": ("cannot", "The log cannot say"),
    "the log is wrong": ("wrong", "The log is wrong: inconsistent propensities"),
}
CERTIFIED = {  # the same for the certificates of ``certify``
    "better": ("better", "Certified better than the logging policy"),
    "worse": ("worse", "Certified, and worse than the logging policy"),
    "not shown": ("open", "Certified, not shown to be better"),
}
NOT_PRINTED = "Outcome", "Interval", "Why undecided"  # columns of constraints
WIDTH = 100
MAX_CANDIDATES = 10
FEW_PLANNED = 100  # effective sample size below which the text of a plan says that its numbers are rough
INSIDE_NUMBER = re.compile(r"(?<=\d) (?=%|\d{3}\b)")  # a space before a percent sign, or between thousands


class Headline(NamedTuple):
    """The verdict on a policy: CSS class of the page's header, title, and a sentence with the reason."""

    kind: str
    title: str
    sentence: str = ""


def headline(answer: Answer) -> Headline:
    """Return the verdict, or a summary of the checks if the command gives none."""
    verdict, statement = answer.verdict, answer.statement
    if verdict is not None and statement is not None:
        kind, title = (CERTIFIED if statement.verdict == "certified" else VERDICTS)[verdict.name]
        if statement.assumption and kind in ("better", "worse"):
            title = f"{title.removesuffix(f' than {LOGGING_POLICY}')}, if {statement.assumption}"
        return Headline(kind, title.replace(LOGGING_POLICY, clean(answer.reference.name)), clean(statement.sentence))
    failures, cautions = answer.count_level("fail"), answer.count_level("caution")
    if failures:
        title = f"{plural(failures, 'check')} of {len(answer.checks)} fail{'s' if failures == 1 else ''}"
        return Headline("wrong", title)
    if cautions:
        return Headline("care", f"No fault found, {plural(cautions, 'caution')}")
    return Headline("better", "No fault found")


def logged_by(answer: Answer) -> list[str]:
    """Return the logging policies with their shares of the rows, the largest first; empty if they have no names."""
    shares = answer.log.get("logged_by") or {}
    return [f"{shorten(name)} {format_share(shares[name])}" for name in sorted(shares, key=lambda key: -shares[key])]


def exploration(answer: Answer) -> str:
    """Return sentences on the share of uniform actions: its cost, and the next log; empty if the command gives none."""
    part, units = answer.further.get("exploration"), answer.units
    if not part:
        return ""
    cost = units.interval(part["cost"])
    decimals = decimals_for([part["cost"].get("standard_error")], [cost.value])
    value, low, high = (format_number(end, decimals, sign=True) for end in cost)
    interval = f" ({answer.level} interval {low} to {high})" if cost.is_bounded else ""
    change = f" This changes the {units.name} by {value} per row{interval}." if part["share"] else ""
    size, rows = part["effective_size"], format_count(part["rows"])
    choices = "values of a label" if part["of_label"] else "actions"
    least = f"all fixed {choices} have an effective sample size of at least {format_count(size)}"
    unseen = f"some fixed {choices} have an effective sample size below 1"
    return (
        f"The policy file draws {format_level(part['share'])} of the actions uniformly.{change} In a next log of "
        f"{rows} rows, {least if is_number(size) and size >= 1 else unseen}."
    )


def explanation(answer: Answer) -> str:
    """Return sentences on the tree that shows what the policy does; empty if the command gives none."""
    part = answer.tables.get("explanation")
    if not part:
        return ""
    if part["is_policy"]:
        return "The policy is this tree, except for its share of uniform actions."
    fidelity, rows = format_share(part["fidelity"]), format_count(part["rows"])
    return (
        f"This tree approximates the policy. In {fidelity} of the {rows} rows that the tree was not fitted to, its "
        "action is the policy's most likely one."
    )


def single_action(answer: Answer) -> str:
    """Return sentences on the difference from the best single action; empty if the command gives none."""
    part, units = answer.further.get("single_action"), answer.units
    if not part:
        return ""
    name = shorten(part["action"])
    if "corrected" not in part:
        return f"{answer.subject} takes a single action for everybody, {name}."
    change = units.interval(part["corrected"])
    has_choice = answer.choices is not None and answer.choices > 1
    choice = f", corrected for the choice among {format_count(answer.choices)} candidates" if has_choice else ""
    interval = f" ({answer.level} interval {answer.format_interval(change, '', sign=True)}{choice})"
    is_shown = change.is_bounded and (change.low > 0 if units.is_reward else change.high < 0)
    advice = "" if is_shown else " So one action for everybody may be as good."
    return (
        f"Compared with the best single action for everybody, {name}, {answer.subject[0].lower()}{answer.subject[1:]} "
        f"changes {units.name} by {answer.format(change.value, sign=True)} per row"
        f"{interval if change.is_bounded else ''}.{advice}"
    )


def readability(answer: Answer) -> str:
    """Return sentences on the difference of a policy tree from another policy; empty if the command gives none."""
    part, units = answer.further.get("readability"), answer.units
    if not part:
        return ""
    change, choices = units.interval(part["difference"]), format_count(answer.choices)
    interval = f" ({answer.level} interval {answer.format_interval(change, '', sign=True)})"
    rival, tree = (quote_label(shorten(part[key])) for key in ("other", "tree"))
    return (
        f"Compared with {rival}, {tree} changes {units.name} by {answer.format(change.value, sign=True)} per row"
        f"{interval if change.is_bounded else ''}. The interval is of these two policies, and not adjusted for their "
        f"choice among {choices} candidates on the same rows."
    )


def notes(answer: Answer, kind: str) -> list[str]:
    """Return the ``changes`` or the ``cautions`` of the verdict."""
    return [clean(note) for note in getattr(answer.statement, kind, ())]


def text(answer: Answer) -> str:
    """Return the short answer, in lines of at most 100 columns unless a name is longer. No sentence is shortened.

    Returns
    -------
    str
        Text without control characters, so that names of a log cannot control the terminal.
    """
    verdict, skipped, imputed = headline(answer), answer.log["skipped"], answer.log["imputed"]
    loggers, step = logged_by(answer), answer.statement.next_step if answer.statement else ""
    reasons = "; ".join(f"{plural(n, 'row')}, {clean(reason)}" for reason, n in skipped.items())
    blocks = [
        wrap(f"{verdict.title}. {verdict.sentence}".strip()),
        wrap(f"Not read: {reasons}") if skipped else [],
        wrap(f"Imputed missing values: {format_imputed(imputed)}.") if imputed else [],
        wrap(f"Logged by: {', '.join(loggers)} of the rows.") if loggers else [],
        candidate_lines(answer),
        *(constraint_lines(answer.constraints(kind)) for kind in CONSTRAINTS),
        *(curve_lines(answer, curve) for curve in answer.curves),
        wrap(f"* is the value in the mapping. All bounds on trees hold together with {answer.level} confidence.")
        if answer.curves
        else [],
        check_lines(answer),
        tree_lines(answer),
        wrap(single_action(answer)),
        wrap(readability(answer)),
        wrap(exploration(answer)),
        wrap(f"Next: {clean(step)}") if step else [],
        note_lines("What would change the verdict:", notes(answer, "changes")),
        note_lines("Cautions:", notes(answer, "cautions")),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def wrap(sentence: str, indent: str = "") -> list[str]:
    """Return a sentence in lines."""
    lines = textwrap.wrap(INSIDE_NUMBER.sub("\xa0", sentence), WIDTH, subsequent_indent=indent)
    return [line.replace("\xa0", " ") for line in lines]


def candidate_lines(answer: Answer) -> list[str]:
    """Return the table of the logging policy and the candidates."""
    sign = "≥" if answer.units.is_reward else "≤"
    header = [
        "",
        shorten(answer.units.name, 24),
        f"{answer.level} interval",
        f"{'worst case' if answer.reference.radius else 'certified'} {sign}",
        "eff. sample size",
        "by",
    ]
    rows = []
    for candidate in answer.compared[:MAX_CANDIDATES]:
        settings = f", {candidate.described_settings}" if candidate.described_settings else ""
        role = " (logging policy)" if candidate.is_logging else ""
        rows.append(
            [
                f"{'*' if candidate.is_chosen else ' '} {shorten(candidate.label, 24)}{settings}{role}",
                answer.format(candidate.interval.value),
                answer.format_interval(candidate.interval, DASH),
                answer.format(candidate.bound),
                format_count(candidate.comparison.get("effective_size")),
                ESTIMATES.get(candidate.main_estimate, ""),
            ]
        )
    n_hidden = len(answer.compared) - MAX_CANDIDATES
    hidden = [f"  and {n_hidden} more"] if n_hidden > 0 else []
    return align(header, rows) + hidden if rows else []


def constraint_lines(judged: Sequence[JudgedConstraint]) -> list[str]:
    """Return the table of the guardrails, or of the limits."""
    rows = constraint_rows(judged)
    if not rows:
        return []
    status, name, *values = (title for title in rows[0] if title not in NOT_PRINTED)
    cells = [[f"  {shorten(row[name].text, 24)}", *(row[title].text for title in (*values, status))] for row in rows]
    return align([name, *map(str.lower, values), status], cells)


def curve_lines(answer: Answer, curve: LimitCurve) -> list[str]:
    """Return the table of the gain within several values of a limit."""
    titles = "Use, certified", "Gain", "Interval", "Gain, certified"
    rows = curve_rows(answer, curve)
    cells = [
        [f"{'*' if row['Allowed'].detail else ' '} {row['Allowed'].text}", *(row[title].text for title in titles)]
        for row in rows
    ]
    return align([f"Trees by {shorten(curve.name, 24)}", *map(str.lower, titles)], cells)


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table without empty columns as lines: names on the left, numbers on the right."""
    columns = [cells for cells in zip(header, *rows, strict=True) if any(cell not in ("", DASH) for cell in cells[1:])]
    names, *values = ([pad(cell, max(map(width, cells)), i > 0) for cell in cells] for i, cells in enumerate(columns))
    return ["  ".join(cells).rstrip() for cells in zip(names, *values, strict=True)]


def width(cell: str) -> int:
    """Return how many columns of a terminal a cell takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in cell)
    return len(cell) + wide - sum(bool(unicodedata.combining(c)) or c in JOINERS for c in cell)


def pad(cell: str, columns: int, is_right: bool) -> str:
    """Return a cell filled with spaces to this many columns."""
    space = " " * (columns - width(cell))
    return space + cell if is_right else cell + space


def check_lines(answer: Answer) -> list[str]:
    """Return the failed checks, and the cautions unless the verdict lists them."""
    total, lines = len(answer.checks), []
    if total and answer.count_level("good") == total:
        return [f"All {total} checks are good."]
    for check in answer.ranked_checks:
        level = check.level
        if level == "fail" or (level == "caution" and not notes(answer, "cautions")):
            prefix = "FAIL" if level == "fail" else "caution"
            number = format_number(check.value)
            lines += wrap(f"{prefix}: {clean(check.name)} {number}. {clean(check.statement)}".rstrip(), "  ")
    return lines


def tree_lines(answer: Answer) -> list[str]:
    """Return the tree that shows what the policy does, a condition a line, and what the tree is."""
    part, lines = answer.tables.get("explanation"), ["What the policy does:"]
    for node in part["nodes"] if part else ():
        indent = "  " * max(node["depth"], 1)
        texts = f"if {clean(node['if'])}:" if node["if"] else "", shorten(node["action"]) if "action" in node else ""
        lines += wrap(f"{indent}{' '.join(filter(None, texts))}", indent + "  ") if any(texts) else []
    return [*lines, *wrap(explanation(answer))] if part else []


def note_lines(title: str, sentences: Sequence[str]) -> list[str]:
    """Return sentences as a list under a title."""
    lines = [line for sentence in sentences for line in wrap(f"- {sentence}", "  ")]
    return [title, *lines] if lines else []


def plan_text(answer: Mapping) -> str:
    """Return the text of the JSON answer of ``drcrm plan``: a summary, and the smallest differences by rows."""
    tested, log = answer["tested"], answer["log"]
    subject = "policy" if "policy" in tested else "action"
    name = shorten(tested[subject])
    name = name if subject == "policy" else f"always taking {name!r}, the single action that is hardest to test"
    summary = f"Plan for the log after {shorten(log['name'])} ({format_count(log['rows'])} rows). Tested: {name}"
    decimals = decimals_for([size["difference"] for size in answer["sizes"]])
    rows = [[format_count(size["rows"]), format_number(size["difference"], decimals)] for size in answer["sizes"]]
    notes = [
        f"80 % of all logs show a difference of the stated size, in one look. Evaluated on {clean(answer['rows'])}."
    ]
    if tested["effective_size"] < FEW_PLANNED:
        size = format_count(tested["effective_size"])
        notes.append(f"The effective sample size is only {size} rows, so the plan is rough.")
    table = align(["rows", "smallest difference"], rows)
    return "\n\n".join("\n".join(block) for block in (wrap(f"{summary}."), table, note_lines("Notes:", notes))) + "\n"
