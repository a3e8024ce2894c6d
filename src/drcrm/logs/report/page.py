"""HTML page of the report on a log: the verdict first, then the evidence. One file that loads nothing."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from drcrm import __version__
from drcrm.arrays.formats import (
    DASH,
    ConfidenceInterval,
    clean,
    format_count,
    format_imputed,
    format_number,
    is_number,
    numbers,
    plural,
    sanitize,
    shorten,
)
from drcrm.errors import import_extra
from drcrm.logs.report import outcome_sections, sections
from drcrm.logs.report.answer import Answer
from drcrm.logs.report.candidate import ESTIMATES, Candidate
from drcrm.logs.report.charts import Scale, gauge, percent
from drcrm.logs.report.texts import explanation, exploration, headline, logged_by, notes, readability, single_action

if TYPE_CHECKING:
    from jinja2 import Environment

MARKS = {"better": "✓", "open": "≈", "worse": "↓", "care": "!", "cannot": "?", "wrong": "!"}
MAX_FAILURES = 4
MAX_ACTIONS = 8
ROW_COUNTS = {"rows": "rows read", "training": "for training", "heldout": "held out", "contexts": "contexts"}
PROPENSITIES = {
    "logged": "from the log",
    "imitated": "estimated, because the log has none. Certificates hold only if the estimates are correct.",
}


def page(answer: Answer) -> str:
    """Return the page of an answer. The page leaves out the parts that the command does not give.

    Returns
    -------
    str
        A whole HTML file without scripts, which loads nothing. The templates escape every text of the answer, and
        replace its control characters. Rows of the log are identified by their numbers.

    Raises
    ------
    InputError
        If Jinja2 is not installed.
    """
    origin, title = answer.further.get("made"), headline(answer).title
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=f"{title}: {shorten(answer.log['name'])}",
            units=answer.units,
            confidence=answer.level,
            subject=answer.subject,
            version=__version__,
            header=header(answer),
            tiles=tiles(answer),
            changes=notes(answer, "changes"),
            cautions=notes(answer, "cautions"),
            single_action=single_action(answer),
            readability=readability(answer),
            exploration=exploration(answer),
            reference=clean(answer.reference.name),
            blocks=outcome_sections.blocks(answer),
            candidates=sections.candidates(answer),
            constraints=outcome_sections.constraints(answer),
            curves=outcome_sections.curves(answer),
            actions=sections.actions(answer),
            overlap=sections.overlap(answer),
            checks=sections.checks(answer),
            slices=outcome_sections.parts(answer, "slice"),
            periods=outcome_sections.parts(answer, "period"),
            leaves=outcome_sections.parts(answer, "leaf"),
            explanation=explanation(answer),
            tree=outcome_sections.tree(answer),
            sensitivity=sections.sensitivity(answer),
            breakeven_shift=sections.breakeven_shift(answer),
            running=sections.running(answer),
            influential_rows=sections.influential_rows(answer),
            provenance=provenance(answer),
            options=json.dumps(origin, ensure_ascii=False, indent=2, default=str).splitlines() if origin else [],
        )
    )


@cache
def _environment() -> "Environment":
    """Return the templates. They escape and sanitize every value."""
    jinja2, markup = import_extra("jinja2"), import_extra("markupsafe").Markup
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("drcrm.logs.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, markup) else sanitize(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shorten"] = shorten
    return environment


def header(answer: Answer) -> Mapping[str, object]:
    """Return the verdict, with the chart or the failed checks that it follows from."""
    verdict = headline(answer)
    is_refused = verdict.kind in ("wrong", "cannot")
    failed = [check for check in answer.checks if check.has_failed]
    failures = [
        {"name": check.name, "value": format_number(check.value), "expected": clean(check.threshold)}
        for check in failed[:MAX_FAILURES]
    ]
    return {
        "command": answer.command.replace("_", " "),
        "log": answer.log["name"],
        "verdict": verdict,
        "next_step": clean(answer.statement.next_step) if answer.statement else "",
        "mark": MARKS[verdict.kind],
        "is_refused": is_refused,
        "failures": failures if is_refused else [],
        "n_more_failures": len(failed[MAX_FAILURES:]),
        "gain": None if is_refused or answer.evaluated is None else gain(answer, answer.evaluated),
    }


def gain(answer: Answer, candidate: Candidate) -> Mapping[str, object] | None:
    """Return the difference from the logging policy in words, and as a chart with a better and a worse side."""
    difference, bound, units = candidate.difference, candidate.difference_bound, answer.units
    if not is_number(difference.value):
        return None
    reach = max(map(abs, numbers([*difference, bound])))
    scale = Scale.over([0.0, *difference, bound, -0.4 * reach, 0.4 * reach])
    zero = scale.share(0.0)
    settings = candidate.described_settings
    name = f"{candidate.label}, {settings}" if settings else candidate.label
    word = "certified" if is_number(candidate.bound) else "bound:"
    bound_key = {"bound strong": f"{word.removesuffix(':')}: {units.side} this"} if is_number(bound) else {}
    return {
        "candidate": name if answer.keeps_reference else "",
        "chart": gauge(scale, difference, "strong", bound, 0.0),
        "labels": scale.labels(),
        "key": {"dot strong": f"estimate and {answer.level} interval", **bound_key, "logging": "logging policy"},
        "better_side": (percent(zero), percent(1 - zero)) if units.is_reward else ("0%", percent(zero)),
        "value": answer.format(difference.value, sign=True),
        "interval": answer.format_interval(difference, "", sign=True),
        "bound": f"{word} {units.side} {answer.format(bound, sign=True)}" if is_number(bound) else "",
    }


def tiles(answer: Answer) -> list[tuple[str, str, str]]:
    """Return titles, values and details of the main numbers.

    They are both policies' values, the certificate and the effective sample size.
    """
    candidate, unit, log = answer.evaluated, answer.units.name, answer.log
    logging = answer.units.estimate(answer.logging)
    tiles = [(f"Logging policy: {unit}", answer.format(logging.value), _interval_with_level(answer, logging))]
    if candidate is not None:
        method = f", by {ESTIMATES[candidate.main_estimate]}" if candidate.main_estimate else ""
        interval = _interval_with_level(answer, candidate.interval) + method
        if candidate.is_corrected:
            interval = f"corrected for the choice among {format_count(answer.choices)} candidates{method}"
        title = f"{answer.subject.removeprefix('The ').capitalize()}: estimated {unit}"
        size = format_count(candidate.comparison.get("effective_size"))
        n_rows, kind = log.get("heldout") or log["rows"], answer.tested_rows
        tiles.append((title, answer.format(candidate.value), interval))
        tiles += [certificate(answer, candidate), ("Effective sample size", size, f"of {format_count(n_rows)} {kind}")]
    return [tile for tile in tiles if tile[1] != DASH]


def certificate(answer: Answer, candidate: Candidate) -> tuple[str, str, str]:
    """Return the tile of the certified bound on the evaluated policy's cost or reward, or why there is none."""
    part, units = candidate.certificate, answer.units
    if not is_number(candidate.bound):
        return ("Certified", "nothing", clean(part.get("refused") or "No certificate was requested."))
    level, n_candidates = part.get("confidence"), part.get("choices")
    details = [f"with probability {level:g}"] if is_number(level) else []
    if is_number(n_candidates) and n_candidates > 1:
        details.append(f"adjusted for {format_count(n_candidates)} candidates")
    if answer.log.get("propensities") == "imitated":
        details.append("if the estimated propensities are correct")
    title = "Certified worst case" if answer.reference.radius else "Certified"
    return (title, f"{units.side} {answer.format(candidate.bound)}", ", ".join(details))


def _interval_with_level(answer: Answer, interval: ConfidenceInterval) -> str:
    ends = answer.format_interval(interval, "")
    return f"{ends} ({answer.level} interval)" if ends else "no interval"


def provenance(answer: Answer) -> Mapping[str, list[str]]:
    """Return what the report is based on, as a list of texts for each term. Terms without texts are left out."""
    log = answer.log
    names, words = log["actions"], dict(ROW_COUNTS)
    if answer.blocks:
        words["heldout"] = "in tested blocks"
    actions = [shorten(name, 24) for name in names[:MAX_ACTIONS]]
    if len(names) > MAX_ACTIONS:
        actions.append(plural(len(names) - MAX_ACTIONS, "other"))
    n_candidates = answer.choices
    terms: dict[str, list] = {
        "Log": [log["name"], log["format"]],
        "Rows": [f"{format_count(log[key])} {word}" for key, word in words.items() if is_number(log.get(key))],
        "Skipped rows": [f"{format_count(n)}: {clean(why)}" for why, n in log["skipped"].items()],
        "Imputed values": [format_imputed(log["imputed"])],
        "Split": [log.get("split")],
        "Logging policies": logged_by(answer),
        "Decision": [log["kind"]],
        "Actions": actions,
        "Features": [format_count(log["features"])],
        "Propensities": [PROPENSITIES[log["propensities"]]],
        "SHA-256 of the log": [log["digest"]],
        "Candidates": [format_count(n_candidates) if is_number(n_candidates) else ""],
        "Version": [f"drcrm {__version__}"],
    }
    kept = {term: [clean(text) for text in texts if text] for term, texts in terms.items()}
    return {term: texts for term, texts in kept.items() if texts}
