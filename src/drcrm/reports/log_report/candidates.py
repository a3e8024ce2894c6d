"""The policies that were judged, on the page on a log: what they are called, their order, their estimates."""

from collections.abc import Mapping

from drcrm.reports.log_report.answer import ESTIMATES, Answer, Interval, mapping, settings
from drcrm.reports.log_report.figures import Scale, axis, gauge
from drcrm.reports.log_report.formatting import DASH, count, known, name, number, percent, plural, sentence
from drcrm.reports.log_report.html import Column, details, key, section, table

SHOWN = 8  # in the picture
LISTED = 200  # in the table


def called(candidate: Mapping) -> str:
    """What a candidate is called in a sentence."""
    said, more = name(candidate.get("label") or candidate.get("name") or "a policy"), settings(candidate)
    return f"{said}, {name(more, 80)}" if more else said


def label(candidate: Mapping) -> str:
    """What a candidate is called, with its settings and the part it plays."""
    said = name(candidate.get("label") or candidate.get("name") or "a policy")
    more = settings(candidate)
    tags = [tag for tag, is_so in (("chosen", "chosen"), ("runs now", "is_logging")) if candidate.get(is_so)]
    marks = "".join(f' <span class="tag">{tag}</span>' for tag in tags)
    return f"{said}{marks}" + (f'<div class="more">{name(more, 80)}</div>' if more else "")


def ordered(answer: Answer) -> list[Mapping]:
    """The chosen candidate, what runs now, then the others, the best estimate first."""

    def place(candidate: Mapping) -> tuple:
        value = answer.headline(candidate)[1].value
        worst = float("inf") if value is None else -value if answer.reward else value
        return not candidate.get("chosen"), not candidate.get("is_logging"), worst

    return sorted(answer.candidates, key=place)


def candidates(answer: Answer) -> str:
    """The candidates on one scale, with intervals and certificates, beside what runs now."""
    given = ordered(answer)
    shown = given[:SHOWN]
    if not shown:
        return ""
    estimates = [answer.headline(each)[1] for each in shown]
    core = [*answer.logging, *estimates[0], *(answer.bound(each) for each in shown[:1])]
    others = [value for each in estimates for value in each] + [answer.bound(each) for each in shown]
    scale = Scale.over(others, core)
    lines = [candidate_line(answer, each, scale) for each in shown]
    if known(answer.logging.value) and not any(each.get("is_logging") for each in shown):
        lines.insert(1, now_line(answer, scale))
    side = "at least" if answer.reward else "at most"
    columns = [Column("Policy", "name"), Column(answer.unit.capitalize(), "picture"), Column("Estimate")]
    columns += [Column("Interval"), Column(f"Certified {side}"), Column("Difference to now"), Column("Rows that count")]
    marks = key(
        ("dot strong", f"estimate and {answer.confidence} interval"),
        ("bound strong", f"certified: {side} this"),
        ("now", "what runs now"),
    )
    better = "more is better" if answer.reward else "less is better"
    where = "the rows held out" if answer.part("log").get("heldout") else "the rows of the log"
    lead = f"Estimated {answer.unit} of a decision on {where}; {better}."
    more = len(given) - len(shown)
    rest = f"<p>{plural(more, 'other candidate')} in the table below.</p>\n" if more else ""
    every = details("Every candidate by every estimate", all_estimates(answer, given))
    title = "The candidates" if len(given) > 1 else "The policy"
    return section(title, lead, marks, table(columns, lines, axis(scale)), rest, every)


def candidate_line(answer: Answer, candidate: Mapping, scale: Scale) -> list[str]:
    """A candidate's line of the table."""
    given, bound = answer.headline(candidate)[1], answer.bound(candidate)
    look = "strong" if candidate is answer.chosen else "grey" if candidate.get("is_logging") else "blue"
    why = mapping(candidate.get("certificate")).get("refused")
    promise = answer.value(bound) if known(bound) else "refused" if why else DASH
    difference, least = answer.difference({} if candidate.get("is_logging") else candidate)
    side = "at least" if answer.reward else "at most"
    more = f'<div class="more">{side} {answer.value(least, sign=True)}</div>' if known(least) else ""
    return [
        label(candidate),
        gauge(scale, given, look, bound, answer.logging.value),
        f"<b>{answer.value(given.value)}</b>",
        between(answer, given),
        promise + (f'<div class="more why">{sentence(why)}</div>' if why else ""),
        answer.value(difference.value, sign=True) + more,
        count(candidate.get("effective_size")),
    ]


def now_line(answer: Answer, scale: Scale) -> list[str]:
    """The line of the logging policy, where it is no candidate."""
    given = answer.logging
    picture = gauge(scale, given, "grey", None, given.value)
    said = 'What runs now<div class="more">the logging policy</div>'
    return [said, picture, f"<b>{answer.value(given.value)}</b>", between(answer, given), DASH, DASH, DASH]


def between(answer: Answer, given: Interval) -> str:
    """An interval in a table."""
    if not (known(given.low) and known(given.high)):
        return DASH
    return f"{answer.value(given.low)} to {answer.value(given.high)}"


def all_estimates(answer: Answer, given: list[Mapping]) -> str:
    """Every candidate by every estimate."""
    used = [which for which in ESTIMATES if any(mapping(each.get("estimates")).get(which) for each in given)]
    if not used:
        return ""
    columns = [Column("Policy", "name"), *(Column(ESTIMATES[which]) for which in used)]
    columns += [Column("Mean weight"), Column("Without support")]
    lines = [
        [
            label(each),
            *(one_estimate(answer, each, which) for which in used),
            number(each.get("mean_weight")),
            percent(each.get("unsupported")),
        ]
        for each in given[:LISTED]
    ]
    return table(columns, lines, kind="scroll")


def one_estimate(answer: Answer, candidate: Mapping, which: str) -> str:
    """An estimate with its standard error."""
    given = mapping(mapping(candidate.get("estimates")).get(which))
    error = given.get("standard_error")
    spread = f" ± {number(error, answer.decimals)}" if known(error) else ""
    return answer.value(answer.shown(given.get("value"))) + spread


def estimates(answer: Answer) -> str:
    """The chosen policy by every estimate."""
    given = mapping(answer.judged.get("estimates"))
    found = {ESTIMATES[which]: answer.interval(given.get(which)) for which in ESTIMATES}
    found = {said: each for said, each in found.items() if known(each.value)}
    if len(found) < 2:
        return ""
    first = answer.headline(answer.judged)[0]
    scale = Scale.over(
        [value for each in found.values() for value in each], [*answer.logging, *found[ESTIMATES[first]]]
    )
    columns = [
        Column("Estimate", "name"),
        Column(answer.unit.capitalize(), "picture"),
        Column("Value"),
        Column("Interval"),
    ]
    lines = [
        [
            said,
            gauge(scale, each, "strong" if said == ESTIMATES[first] else "blue", None, answer.logging.value),
            f"<b>{answer.value(each.value)}</b>",
            between(answer, each),
        ]
        for said, each in found.items()
    ]
    lead = (
        f"{answer.learned} by every estimate. Where they disagree by more than their intervals, one of them is wrong."
    )
    return section("Do the estimates agree?", lead, key(("now", "what runs now")), table(columns, lines, axis(scale)))
