"""Sections of the page on a log, in their order; each is empty where the answer has nothing for it."""

from collections.abc import Mapping
from html import escape

from drcrm.reports.log_report.answer import LEVELS, Answer, level, mapping
from drcrm.reports.log_report.candidates import between, candidates, estimates
from drcrm.reports.log_report.figures import Scale, axis, calibration, gauge, histogram, two_bars
from drcrm.reports.log_report.formatting import (
    DASH,
    clean,
    count,
    finite,
    known,
    name,
    number,
    percent,
    plural,
    sentence,
)
from drcrm.reports.log_report.html import Column, key, section, table

SHOWN = 12  # actions
LISTED = 200  # slices


def actions(answer: Answer) -> str:
    """How often each action is chosen now and by the policy, the largest changes first."""
    given = answer.items("actions")
    ranked = sorted(given, key=lambda each: -change(each))
    shown, rest = ranked[:SHOWN], ranked[SHOWN:]
    most = max(finite(share for each in shown for share in (each.get("logging"), each.get("policy"))), default=0)
    columns = [Column("Action", "name"), Column("Share of decisions", "picture"), Column("Now"), Column("Policy")]
    columns += [Column("Without support"), Column("Rows"), Column(answer.unit.capitalize())]
    decimals = 2 if answer.decimals < 4 else answer.decimals - 1
    lines = [
        [
            name(DASH if each.get("action") is None else each["action"]),
            two_bars(each.get("logging"), each.get("policy"), most),
            percent(each.get("logging")),
            percent(each.get("policy")),
            warned(each.get("unsupported")),
            count(each.get("rows")),
            number(answer.shown(each.get("cost")), decimals),
        ]
        for each in shown
    ]
    sums = [percent(sum(finite(each.get(which) for each in rest))) for which in ("logging", "policy")]
    more = f"<p>{plural(len(rest), 'other action')}: together {sums[0]} now, {sums[1]} under the policy.</p>\n"
    judged = any(known(each.get("policy")) for each in given)
    lead = "How often an action is taken now and would be, where that changes most. "
    lead += "Without support: what of it the log could not have shown."
    marks = key(("square grey", "now"), ("square blue", "policy")) if judged else ""
    lead, title = (lead, "What it would do") if judged else ("How often an action is taken.", "What is done now")
    return section(title, lead, *[marks, table(columns, lines), more * bool(rest)] * bool(lines))


def change(action: Mapping) -> float:
    """By how much the share of an action changes, or the larger share where one is not known."""
    now, then = action.get("logging"), action.get("policy")
    return abs(then - now) if known(now) and known(then) else max(finite([now, then]), default=0.0)


def warned(share: object) -> str:
    """A share that should be 0."""
    return f'<b class="bad">{percent(share)}</b>' if known(share) and share > 0.005 else percent(share)


def pictures(answer: Answer) -> str:
    """Weights and overlap as pictures, side by side."""
    return section(
        "How far the log carries",
        "A policy can be judged where it does what the log has seen. Weights say how much a logged row counts for it.",
        *[
            f'<div class="beside">\n{each}</div>\n'
            for each in [weights(answer) + overlap(answer) + agreement(answer)]
            if each
        ],
    )


def weights(answer: Answer) -> str:
    """The histogram of the weights: how many rows have them, how much of the estimate they carry."""
    given = answer.part("weights")
    found = mapping(given.get("histogram"))
    what = "Weights of the rows: share of the rows and share of the total weight"
    picture = histogram(found.get("edges"), found.get("rows"), found.get("share"), power, what)
    quantiles = mapping(given.get("quantiles"))
    said = [f"{QUANTILES.get(str(each), clean(each))} {number(value)}" for each, value in quantiles.items()]
    caption = f"Weights: {escape(', '.join(said))}." if said else ""
    if not picture and not said:
        return ""
    marks = key(("square grey", "share of the rows"), ("square blue", "share of the total weight")) if picture else ""
    return titled("Weights of the rows", marks + picture, caption)


def titled(title: str, picture: str, caption: str) -> str:
    """A picture with its title and caption."""
    return f"<figure><h3>{title}</h3>{picture}<figcaption>{caption}</figcaption></figure>\n"


QUANTILES = {"0": "least", "0.5": "median", "0.9": "90 %", "0.99": "99 %", "1": "largest", "1.0": "largest"}


def power(exponent: float) -> str:
    """A power of ten, as a number where that is short."""
    return f"{10**exponent:.2g}" if -3 <= exponent < 4 else f"1e{exponent:.2g}".replace("-", "−")


def overlap(answer: Answer) -> str:
    """The probabilities that the logging policy and the policy give the logged actions."""
    given = answer.part("overlap")
    what = "Probabilities of the logged actions, now and under the policy"
    picture = histogram(given.get("edges"), given.get("logged"), given.get("policy"), lambda edge: f"{edge:.2g}", what)
    if not picture:
        return ""
    judged = bool(given.get("policy"))
    marks = key(("square grey", "logging policy"), *[("square blue", "policy")] * judged)
    caption = "How probable the logged actions were." + (
        " Much blue near 0: there the policy would do something else than the log shows." if judged else ""
    )
    return titled("Probability of the logged action", marks + picture, caption)


def agreement(answer: Answer) -> str:
    """Logged propensities beside those of a model, by decile."""
    pairs = [[each.get(which) for which in ("propensity", "model")] for each in answer.items("calibration")]
    points = [(pair[0], pair[1]) for pair in pairs if all(known(value) and value > 0 for value in pair)]
    if not points:
        return ""
    caption = "Logged propensities by decile (across) and how often the action was taken (up): on the line they agree."
    return titled("Are the propensities right?", calibration(points), caption)


def diagnostics(answer: Answer) -> str:
    """Every check, the worst first."""
    given = answer.diagnostics
    levels = [level(each) for each in given]
    counts = [f"{count(levels.count(one))} {said}" for one, said in COUNTED.items() if one in levels]
    columns = [
        Column("", "level"),
        Column("Check", "name"),
        Column("Value"),
        Column("Expected", "sentence"),
        Column("What it says", "sentence"),
    ]
    lines = [
        [
            f'<span class="badge {level(each)}">{LEVELS[level(each)]}</span>',
            name(each.get("name") or "", 60),
            f"<b>{number(each.get('value'))}</b>" + spread(each),
            sentence(each.get("threshold") or DASH),
            sentence(each.get("sentence")) + source(each),
        ]
        for each in given
    ]
    return section("Checks", f"{', '.join(counts)}.", table(columns, lines, kind="stack checks") if lines else "")


COUNTED = {"fail": "failed", "caution": "to be cautious about", "good": "good"}


def spread(diagnostic: Mapping) -> str:
    """The interval of a diagnostic."""
    low, high = diagnostic.get("low"), diagnostic.get("high")
    return f' <span class="more">{number(low)} to {number(high)}</span>' if known(low) and known(high) else ""


def source(diagnostic: Mapping) -> str:
    """Where a diagnostic is from."""
    return f' <span class="source">{sentence(diagnostic["source"])}</span>' if diagnostic.get("source") else ""


def slices(answer: Answer) -> str:
    """The policy beside what runs now, slice by slice."""
    given = answer.items("slices")
    found = [
        answer.interval({"value": each.get("policy"), "low": each.get("low"), "high": each.get("high")})
        for each in given
    ]
    core = [each.value for each in found] + [answer.shown(each.get("logging")) for each in given]
    scale = Scale.over([value for each in found for value in each], core)
    columns = [Column("Slice", "name"), Column(answer.unit.capitalize(), "picture"), Column("Now"), Column("Policy")]
    columns += [Column("Interval"), Column("Rows"), Column("Rows that count")]
    lines = [
        [
            name(DASH if each.get("slice") is None else each["slice"]),
            gauge(scale, policy, "blue", None, answer.shown(each.get("logging"))),
            answer.value(answer.shown(each.get("logging"))),
            f"<b>{answer.value(policy.value)}</b>",
            between(answer, policy),
            count(each.get("rows")),
            count(each.get("effective_size")),
        ]
        for each, policy in zip(given[:LISTED], found, strict=False)
    ]
    more = f"<p>{plural(len(given) - LISTED, 'other slice')}.</p>\n" if len(given) > LISTED else ""
    marks = key(("dot blue", f"policy and {answer.confidence} interval"), ("now", "what runs now"))
    return section("Slice by slice", "", *[marks, table(columns, lines, axis(scale)), more] * bool(lines))


def largest_rows(answer: Answer) -> str:
    """The rows that the estimate rests on most."""
    given = answer.items("largest_rows")
    columns = [Column("Row"), Column("Weight"), Column(answer.unit.capitalize()), Column("Share of the estimate")]
    lines = [
        [
            str(int(each["row"])) if known(each.get("row")) else DASH,
            number(each.get("weight")),
            number(answer.shown(each.get("cost"))),
            percent(each.get("share")),
        ]
        for each in given[:20]
    ]
    lead = "The rows that count most, by their number in the file (the first is 0)."
    return section("What the estimate rests on", lead, table(columns, lines, kind="scroll narrow") if lines else "")


SECTIONS = (candidates, estimates, actions, pictures, diagnostics, slices, largest_rows)
