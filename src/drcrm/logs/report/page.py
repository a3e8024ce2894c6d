"""HTML page of the report on a log: the verdict first, then the evidence. One file that loads nothing."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from drcrm.arrays.number_formats import DASH, format_count, format_number, is_number, numbers, plural
from drcrm.errors import import_extra
from drcrm.logs.diagnostics.formats import clean, format_imputed, sanitize, shorten
from drcrm.logs.diagnostics.units import ConfidenceInterval
from drcrm.logs.report import outcome_sections, sections
from drcrm.logs.report.answer import ESTIMATES, Answer, Candidate
from drcrm.logs.report.charts import Scale, gauge, percent

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


def page(answer: Mapping) -> str:
    """Return the page of an answer.

    Parameters
    ----------
    answer : mapping
        The command's JSON answer, in costs. The page leaves out the parts that the command does not give.

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
    view, origin = Answer(answer), answer.get("made")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=f"{view.headline.title}: {shorten(view.part('log')['name'])}",
            units=view.units,
            confidence=view.confidence,
            subject=view.subject,
            version=view.raw["version"],
            header=header(view),
            tiles=tiles(view),
            changes=view.notes("changes"),
            cautions=view.notes("cautions"),
            single_action=view.single_action,
            readability=view.readability,
            exploration=view.exploration,
            reference=view.reference,
            blocks=outcome_sections.blocks(view),
            candidates=sections.candidates(view),
            guardrails=outcome_sections.guardrails(view),
            actions=sections.actions(view),
            overlap=sections.overlap(view),
            checks=sections.checks(view),
            slices=outcome_sections.parts(view, "slice"),
            periods=outcome_sections.parts(view, "period"),
            leaves=outcome_sections.parts(view, "leaf"),
            explanation=view.explanation,
            sensitivity=sections.sensitivity(view),
            shift=sections.shift(view),
            running=sections.running(view),
            influential_rows=sections.influential_rows(view),
            provenance=provenance(view),
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
    headline = answer.headline
    is_refused = headline.kind in ("wrong", "cannot")
    failed = [check for check in answer.diagnostics if check["level"] == "fail"]
    failures = [
        {"name": check["name"], "value": format_number(check["value"]), "expected": clean(check["threshold"] or "")}
        for check in failed[:MAX_FAILURES]
    ]
    return {
        "command": answer.raw["command"].replace("_", " "),
        "log": answer.part("log")["name"],
        "verdict": headline,
        "next_step": clean(answer.raw.get("next_step") or ""),
        "mark": MARKS[headline.kind],
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
    name = f"{candidate.label}, {candidate.settings}" if candidate.settings else candidate.label
    word = "certified" if is_number(candidate.bound) else "bound:"
    bound_key = {"bound strong": f"{word.removesuffix(':')}: {units.side} this"} if is_number(bound) else {}
    return {
        "candidate": name if answer.keeps_logging_policy else "",
        "chart": gauge(scale, difference, "strong", bound, 0.0),
        "labels": scale.labels(),
        "key": {"dot strong": f"estimate and {answer.confidence} interval", **bound_key, "logging": "logging policy"},
        "better_side": (percent(zero), percent(1 - zero)) if units.is_reward else ("0%", percent(zero)),
        "value": answer.format(difference.value, sign=True),
        "interval": answer.format_interval(difference, "", sign=True),
        "bound": f"{word} {units.side} {answer.format(bound, sign=True)}" if is_number(bound) else "",
    }


def tiles(answer: Answer) -> list[tuple[str, str, str]]:
    """Return titles, values and details of the main numbers.

    They are both policies' values, the certificate and the effective sample size.
    """
    candidate, unit, log = answer.evaluated, answer.units.name, answer.part("log")
    logging = _interval_with_level(answer, answer.logging)
    tiles = [(f"Logging policy: {unit}", answer.format(answer.logging.value), logging)]
    if candidate is not None:
        method = f", by {ESTIMATES[candidate.main_estimate]}" if candidate.main_estimate else ""
        interval = _interval_with_level(answer, candidate.interval) + method
        if candidate.is_corrected:
            interval = f"corrected for the choice among {format_count(answer.raw['choices'])} candidates{method}"
        title = f"{answer.subject.removeprefix('The ').capitalize()}: estimated {unit}"
        size = format_count(candidate.raw.get("effective_size"))
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
    if answer.part("log").get("propensities") == "imitated":
        details.append("if the estimated propensities are correct")
    title = "Certified worst case" if answer.raw.get("shift") else "Certified"
    return (title, f"{units.side} {answer.format(candidate.bound)}", ", ".join(details))


def _interval_with_level(answer: Answer, interval: ConfidenceInterval) -> str:
    ends = answer.format_interval(interval, "")
    return f"{ends} ({answer.confidence} interval)" if ends else "no interval"


def provenance(answer: Answer) -> Mapping[str, list[str]]:
    """Return what the report is based on, as a list of texts for each term. Terms without texts are left out."""
    log = answer.part("log")
    names, words = log["actions"], dict(ROW_COUNTS)
    if answer.items("blocks"):
        words["heldout"] = "in tested blocks"
    actions = [shorten(name, 24) for name in names[:MAX_ACTIONS]]
    if len(names) > MAX_ACTIONS:
        actions.append(plural(len(names) - MAX_ACTIONS, "other"))
    n_candidates = answer.raw.get("choices")
    terms: dict[str, list] = {
        "Log": [log["name"], log["format"]],
        "Rows": [f"{format_count(log[key])} {word}" for key, word in words.items() if is_number(log.get(key))],
        "Skipped rows": [f"{format_count(n)}: {clean(why)}" for why, n in log["skipped"].items()],
        "Imputed values": [format_imputed(log["imputed"])],
        "Split": [log.get("split")],
        "Logging policies": answer.logged_by,
        "Decision": [log["kind"]],
        "Actions": actions,
        "Features": [format_count(log["features"])],
        "Propensities": [PROPENSITIES[log["propensities"]]],
        "SHA-256 of the log": [log["digest"]],
        "Candidates": [format_count(n_candidates) if is_number(n_candidates) else ""],
        "Version": [f"drcrm {answer.raw['version']}"],
    }
    kept = {term: [clean(text) for text in texts if text] for term, texts in terms.items()}
    return {term: texts for term, texts in kept.items() if texts}
