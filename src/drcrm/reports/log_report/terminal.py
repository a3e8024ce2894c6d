"""The answer on a log for a terminal: the verdict, the candidates, failed checks, what would change it, cautions."""

import textwrap
from collections.abc import Mapping, Sequence

from drcrm.reports.log_report.answer import ESTIMATES, Answer, level, settings
from drcrm.reports.log_report.candidates import between, ordered
from drcrm.reports.log_report.formatting import DASH, clean, columns, count, imputed_in, known, number, padded, short

WIDTH = 100
SHOWN_CANDIDATES = 10


def text(answer: Mapping) -> str:
    """Return the short answer, in lines of at most 100 columns unless a name is longer. Sentences are whole.

    Parameters
    ----------
    answer : mapping
        As a command writes it to JSON; every key may be missing.

    Returns
    -------
    str
        Lines without control characters: names of a log cannot steer the terminal.
    """
    found = Answer(answer)
    verdict = found.verdict
    blocks = [
        wrapped(f"{clean(verdict.title)}. {clean(verdict.sentence)}".strip()),
        skipped(found),
        imputed(found),
        candidates(found),
        checks(found),
        notes("What would change the verdict:", found.changes),
        notes("Cautions:", found.cautions),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def skipped(answer: Answer) -> list[str]:
    """What of the log was not read."""
    given = answer.part("log").get("skipped")
    if not isinstance(given, Mapping) or not given:
        return []
    return wrapped(
        "Not read: " + "; ".join(f"{clean(str(many))} rows, {clean(str(why))}" for why, many in given.items())
    )


def imputed(answer: Answer) -> list[str]:
    """How many missing values of the features were imputed."""
    counts = answer.part("log").get("imputed")
    return wrapped(f"Imputed missing values: {imputed_in(counts)}.") if isinstance(counts, Mapping) and counts else []


def wrapped(said: str, indent: str = "") -> list[str]:
    """A sentence in lines."""
    return textwrap.wrap(said, WIDTH, subsequent_indent=indent)


def candidates(answer: Answer) -> list[str]:
    """The table of what runs now and of the candidates."""
    head = [
        "",
        answer.unit,
        f"{answer.confidence} interval",
        f"certified {'≥' if answer.reward else '≤'}",
        "eff. rows",
        "by",
    ]
    given = ordered(answer)
    now = answer.logging
    lines = [line(answer, each) for each in given[:SHOWN_CANDIDATES]]
    if known(now.value) and not any(each.get("is_logging") for each in given):
        lines.insert(1, ["  what runs now", answer.value(now.value), between(answer, now), DASH, DASH, ""])
    more = len(given) - SHOWN_CANDIDATES
    return [*table(head, lines), *([f"  and {more} more"] if more > 0 else [])] if lines else []


def line(answer: Answer, candidate: Mapping) -> list[str]:
    """A candidate's line."""
    which, given = answer.headline(candidate)
    more = settings(candidate)
    said = short(candidate.get("label") or candidate.get("name") or "a policy", 24) + (f", {more}" if more else "")
    now = " (runs now)" if candidate.get("is_logging") else ""
    return [
        f"{'*' if candidate.get('chosen') else ' '} {said}{now}",
        answer.value(given.value),
        between(answer, given),
        answer.value(answer.bound(candidate)),
        count(candidate.get("effective_size")),
        ESTIMATES.get(which, ""),
    ]


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns that are not empty, names to the left and numbers to the right."""
    used = [place for place in range(len(head)) if any(cells[place] not in ("", DASH) for cells in lines)]
    head, lines = [head[place] for place in used], [[cells[place] for place in used] for cells in lines]
    widths = [max(map(columns, cells)) for cells in zip(head, *lines, strict=True)]
    return [
        "  ".join(
            padded(cell, width, right=place > 0) for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in [head, *lines]
    ]


def checks(answer: Answer) -> list[str]:
    """Return the checks that fail, and those that are cautions unless the verdict lists its cautions."""
    bad = [each for each in answer.diagnostics if level(each) != "good"]
    total = len(answer.diagnostics)
    if not bad:
        return [f"All {total} checks are good."] if total else []
    return [
        line
        for check in bad
        if level(check) == "fail" or not answer.cautions
        for line in wrapped(
            f"{'FAIL' if level(check) == 'fail' else 'caution'}: {clean(check.get('name') or '')}"
            f" {number(check.get('value'))}. {clean(check.get('sentence') or '')}".rstrip(),
            "  ",
        )
    ]


def notes(title: str, sentences: Sequence[str]) -> list[str]:
    """Return sentences in lines under a title; nothing without sentences."""
    lines = [line for sentence in sentences for line in wrapped(f"- {sentence}", "  ")]
    return [title, *lines] if lines else []
