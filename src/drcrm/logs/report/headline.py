"""Sentences of an answer: the headline, what the policy does, and what simpler or exploring policies change."""

from __future__ import annotations

from typing import NamedTuple

from drcrm.arrays.number_formats import (
    decimals_for,
    format_count,
    format_level,
    format_number,
    format_share,
    is_number,
    plural,
)
from drcrm.logs.diagnostics.comparison.reference import LOGGING_POLICY
from drcrm.logs.diagnostics.formats import clean, quote_label, shorten
from drcrm.logs.report.answer import Answer

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
