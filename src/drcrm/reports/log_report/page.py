"""The page on a user's log: the verdict first, then what it rests on. One HTML file that loads nothing."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from drcrm.reports.log_report.answer import ESTIMATES, Answer, mapping
from drcrm.reports.log_report.candidates import called
from drcrm.reports.log_report.figures import Scale, gauge
from drcrm.reports.log_report.formatting import (
    clean,
    count,
    finite,
    imputed_in,
    known,
    name,
    number,
    plural,
    sentence,
    short,
)
from drcrm.reports.log_report.html import details, document, listed, section, tile
from drcrm.reports.log_report.sections import SECTIONS
from drcrm.reports.log_report.terminal import text

__all__ = ["page", "text"]

MARKS = {"better": "✓", "open": "≈", "worse": "↓", "care": "!", "cannot": "?", "wrong": "!"}
SHOWN_FAILURES = 4


def page(answer: Mapping) -> str:
    """The page of an answer.

    Parameters
    ----------
    answer : mapping
        As a command writes it to JSON, in costs. Every key may be missing: the page shows what is there.

    Returns
    -------
    str
        A whole HTML file, without scripts, that loads nothing. All names and sentences of the answer are escaped;
        rows of the log are named by their numbers.
    """
    found = Answer(answer)
    log = short(found.part("log").get("name") or "a log")
    notes = [listing("What would change the verdict", found.changes), listing("Cautions", found.cautions)]
    parts = [banner(found), tiles(found), *notes, *(make(found) for make in SECTIONS), making(found)]
    return document(f"{clean(found.verdict.title)}: {log}", f"<main>\n{''.join(parts)}</main>\n{footer(found)}")


def banner(answer: Answer) -> str:
    """The verdict, and beside it the picture or the checks that it follows from."""
    verdict, log = answer.verdict, answer.part("log")
    command = clean(answer.raw.get("command") or "").replace("_", " ")
    about = " · ".join(filter(None, [escape(command), name(log["name"]) if log.get("name") else ""]))
    said = f"<p>{sentence(verdict.sentence)}</p>\n" if verdict.sentence else ""
    beside = failures(answer) if verdict.kind in ("wrong", "cannot") else gain(answer)
    return (
        f'<header class="{verdict.kind}">\n<div class="said">\n<div class="about">{about}</div>\n'
        f'<h1><span class="mark" aria-hidden="true">{MARKS[verdict.kind]}</span>{escape(clean(verdict.title))}</h1>\n'
        f"{said}</div>\n{beside}</header>\n"
    )


def gain(answer: Answer) -> str:
    """The difference to what runs now, on a line with a better and a worse side."""
    given, bound = answer.difference(answer.judged)
    if not known(given.value):
        return ""
    reach = max(map(abs, finite([*given, bound])))
    scale = Scale.over([0.0, *given, bound, -0.4 * reach, 0.4 * reach])
    left, right = ("worse", "better") if answer.reward else ("better", "worse")
    at = 100 * scale.share(0.0)
    start, width = (at, 100 - at) if answer.reward else (0.0, at)
    shade = f'<rect class="side" x="{start:.2f}%" width="{width:.2f}%" height="100%"/>'
    side = f'<svg class="gauge" aria-hidden="true">{shade}</svg>'
    side_of = "at least" if answer.reward else "at most"
    word = "certified" if known(answer.bound(answer.judged)) else "bound:"
    promise = f"; {word} {side_of} {answer.value(bound, sign=True)}" if known(bound) else ""
    spread = f" ({answer.value(given.low, sign=True)} to {answer.value(given.high, sign=True)})"
    who = f"{answer.learned}, {called(answer.judged)}. " if answer.stays else ""
    return (
        f'<figure class="gain"><figcaption>{who}Difference to what runs now, in {answer.unit}</figcaption>\n'
        f'<div class="line">{side}{gauge(scale, given, "strong", bound, 0.0)}</div>\n'
        f'<div class="sides"><span>← {left}</span><span class="zero" style="left:{at:.2f}%">as now</span>'
        f"<span>{right} →</span></div>\n"
        f"<p><b>{answer.value(given.value, sign=True)}</b>{spread * known(given.low)}{promise}</p></figure>\n"
    )


def failures(answer: Answer) -> str:
    """The checks that fail, with their values."""
    failing = [each for each in answer.diagnostics if each.get("level") == "fail"]
    if not failing:
        return ""
    lines = [
        f"<li><b>{name(each.get('name') or '')}</b> {number(each.get('value'))}{expected(each.get('threshold'))}</li>"
        for each in failing[:SHOWN_FAILURES]
    ]
    more = len(failing) - SHOWN_FAILURES
    lines += [f"<li>and {plural(more, 'other check')}</li>"] if more > 0 else []
    return f'<div class="failures"><div class="what">What fails</div><ul>{"".join(lines)}</ul></div>\n'


def expected(threshold: object) -> str:
    """What a diagnostic should be."""
    return f", expected {sentence(threshold)}" if threshold else ""


def tiles(answer: Answer) -> str:
    """The numbers that matter: what runs now, what was chosen, what is certified, how many rows that rests on."""
    judged, log = answer.judged, answer.part("log")
    unit = "Reward" if answer.reward else "Cost"
    parts = []
    if known(answer.logging.value):
        parts.append(tile(f"{unit} now", answer.value(answer.logging.value), between(answer, answer.logging)))
    if judged:
        which, given = answer.headline(judged)
        by = f", by {ESTIMATES[which]}" if which else ""
        parts.append(tile(f"{answer.learned}, estimated", answer.value(given.value), between(answer, given) + by))
        parts.append(certified(answer))
    if known(judged.get("effective_size")):
        held = log.get("heldout") or log.get("rows")
        of = f"of {count(held)} held out" if log.get("heldout") else f"of {count(held)}" if held else ""
        parts.append(tile("Rows that count", count(judged["effective_size"]), f"{of} (effective sample size)"))
    doubt = answer.verdict.kind in ("wrong", "cannot")
    note = '<p class="doubt">These numbers rest on a log that fails its checks: read them as a hint at most.</p>\n'
    return f'<div class="tiles">\n{"".join(parts)}</div>\n{note * doubt}' if parts else ""


def between(answer: Answer, given) -> str:
    """An interval in words."""
    if not (known(given.low) and known(given.high)):
        return "no interval"
    return f"{answer.value(given.low)} to {answer.value(given.high)} ({answer.confidence} interval)"


def certified(answer: Answer) -> str:
    """What is certified of the policy, or why nothing is."""
    given, bound = mapping(answer.judged.get("certificate")), answer.bound(answer.judged)
    if not known(bound):
        return tile("Certified", "nothing", sentence(given.get("refused") or "no certificate was asked for"))
    level, choices = given.get("confidence"), given.get("choices")
    among = f", for all {count(choices)} candidates at once" if known(choices) and choices > 1 else ""
    often = f"with probability {level:g}{among}" if known(level) else among.removeprefix(", ")
    if answer.part("log").get("propensities") == "imitated":
        often += ", as far as the imitated propensities are right"
    side = "at least" if answer.reward else "at most"
    return tile("Certified", f"{side} {answer.value(bound)}", often.removeprefix(", "))


def listing(title: str, notes: Sequence[str]) -> str:
    """A section that lists sentences, or nothing."""
    items = "".join(f"<li>{sentence(each)}</li>\n" for each in notes)
    return section(title, "", f'<ul class="changes">\n{items}</ul>\n' if items else "")


def making(answer: Answer) -> str:
    """How it was made."""
    log = answer.part("log")
    skipped = mapping(log.get("skipped"))
    actions = log.get("actions") if isinstance(log.get("actions"), list | tuple) else []
    rows = [f"{count(log[key])} {said}" for key, said in ROW_WORDS.items() if known(log.get(key))]
    named = ", ".join(name(each, 24) for each in actions[:8])
    named += f" and {plural(len(actions) - 8, 'other')}" if len(actions) > 8 else ""
    items = [
        (
            "Log",
            ", ".join(filter(None, [name(log["name"], 80) if log.get("name") else "", sentence(log.get("format"))])),
        ),
        ("Rows", ", ".join(rows)),
        ("Skipped", "; ".join(f"{count(number)} {sentence(why)}" for why, number in skipped.items())),
        ("Imputed", sentence(imputed_in(mapping(log.get("imputed"))))),
        ("Split", sentence(log.get("split"))),
        ("Decisions", ": ".join(filter(None, [sentence(log.get("kind")), named]))),
        ("Features", count(log["features"]) if known(log.get("features")) else ""),
        ("Propensities", PROPENSITIES.get(str(log.get("propensities")), sentence(log.get("propensities")))),
        ("Digest", f"<code>{sentence(log.get('digest'))}</code>" if log.get("digest") else ""),
        ("Candidates", plural(answer.raw["choices"], "candidate") if known(answer.raw.get("choices")) else ""),
        ("Version", f"drcrm {sentence(answer.raw.get('version'))}" if answer.raw.get("version") else ""),
    ]
    made = answer.part("made")
    text = json.dumps(made, ensure_ascii=False, indent=2, default=str) if made else ""
    lines = "\n".join(" " * (len(line) - len(line.lstrip())) + clean(line) for line in text.splitlines())
    inner = listed(items) if any(said for _, said in items) else ""
    return section(
        "How it was made", "", inner, details("Mapping and options", f"<pre>{escape(lines)}</pre>") if made else ""
    )


ROW_WORDS = {"rows": "read", "training": "to learn from", "heldout": "held out to judge on", "contexts": "contexts"}
PROPENSITIES = {
    "logged": "from the log",
    "imitated": "<b>imitated</b>: the log has none. What is certified holds as far as they are right.",
}


def footer(answer: Answer) -> str:
    """What the file is."""
    version = f" {sentence(answer.raw.get('version'))}" if answer.raw.get("version") else ""
    return f"<footer>Made by drcrm{version}. Rows of the log are named by their number, from 0.</footer>\n"
