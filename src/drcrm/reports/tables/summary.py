"""The first page of a report: what was compared, what was found, and what that means."""

import re
from collections.abc import Sequence
from functools import partial
from html import escape
from textwrap import indent

import numpy as np
import pandas as pd

from drcrm.reports.figures.figure_data import GREEDY, DatasetResults, closed_gap
from drcrm.reports.roles import BASELINE, LOGGING, ROLES, SKYLINE
from drcrm.reports.tables.comparisons import LEVEL, compare
from drcrm.reports.tables.printed_tables import ENOUGH_SEEDS

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def what_was_compared(all_results: Sequence[DatasetResults]) -> str:
    """The algorithms, and what they learned from: on which data, how much of it, and how often."""
    first = all_results[0]
    learned = [_plain(first.plan.names.label(name)) for name in first.learned]
    data = _listed(_plain(results.plan.names.dataset(results.dataset)) for results in all_results)
    log = f" The log: {first.plan.log}." if first.plan.log else ""
    passes = "one pass" if first.counts[0] == 1 else f"{first.counts[0]} passes"
    return (
        f"{_number(len(learned)).capitalize()} algorithm{'s' * (len(learned) > 1)} learned a policy from the log of "
        f"another policy, π0, on {data}: {_listed(learned)}. A log has what π0 did in {passes} over the training "
        f"contexts, and what that cost.{_plain(log)} All is repeated with {_plain(first.plan.seeds_in_words)}."
    )


def findings(results: DatasetResults) -> list[str]:
    """How good the best algorithm on a data set is, beside what, how far that is, and which others it beats."""
    table = compare(pd.DataFrame({name: results.losses(name) for name in results.algorithms}))
    known = table["mean"].drop(list(ROLES), errors="ignore").dropna()
    data = _plain(results.plan.names.dataset(results.dataset))
    if known.empty:
        return [f"On {data} every algorithm lacks a seed: nothing can be compared."]
    best = known.idxmin()
    words = partial(results.plan.names.word, datasets=[results.dataset])
    error, label = table["standard_error"][best], _plain(results.plan.names.label(best))
    expected = table["mean"].reindex([LOGGING, BASELINE, SKYLINE]).map(_number_or_missing)
    return [
        f"On {data} **{label}** is best: {known[best]:.3f}{'' if np.isnan(error) else f' ± {error:.3f}'} "
        f"{words('wrong')}. The expected loss of π0 is {expected[LOGGING]}, that of CIPS, the plain estimate, "
        f"{expected[BASELINE]}, and that of full supervision, {words('supervised')}, {expected[SKYLINE]}.",
        _way_covered(results, best, label),
        _others_beaten(results, table, best),
    ]


def _way_covered(results: DatasetResults, best: str, label: str) -> str:
    """Say how far the best algorithm comes from CIPS to full supervision by greedy losses, and how far π0 does."""
    means = {name: results.losses(name, loss=GREEDY).mean() for name in (best, LOGGING, BASELINE, SKYLINE)}
    said = {name: _number_or_missing(mean) for name, mean in means.items()}
    greedy = (
        f"The greedy loss, that of the most probable actions, is {said[best]} for {label}, {said[LOGGING]} for π0, "
        f"{said[BASELINE]} for CIPS and {said[SKYLINE]} for full supervision."
    )
    if np.isnan(list(means.values())).any():
        return f"{greedy} A seed is missing, so the way from CIPS to full supervision cannot be measured."
    if means[BASELINE] <= means[SKYLINE]:
        return f"{greedy} CIPS loses no more than full supervision: there is no way between them to measure."
    gap = closed_gap(results).set_index("algorithm")["mean"]
    logging = f"comes {_percent(gap[LOGGING])} of the way" if gap[LOGGING] > 0 else "is no better than CIPS"
    gain = "" if gap[best] > gap[LOGGING] else ", which is no gain"
    return (
        f"{greedy} By it {label} comes {_percent(gap[best])} of the way from CIPS to full supervision{gain}. "
        f"π0, without learning, {logging}."
    )


def _others_beaten(results: DatasetResults, table: pd.DataFrame, best: str) -> str:
    """How many others the best is significantly better than; where it is not all, that few seeds show little."""
    others = [name for name in results.learned if name != best]
    worse = int((table.loc[others, "p_holm"] < LEVEL).sum())
    if not others:
        return "There is no other algorithm to compare it with."
    if len(others) == 1:
        said = f"The other algorithm is{'' if worse else ' not'} significantly worse"
    elif worse == len(others):
        said = f"{'Both' if worse == 2 else f'All {_number(worse)}'} others are significantly worse"
    else:
        verb = "is" if worse == 1 else "are"
        said = f"Of the {_number(len(others))} others {_number(worse)} {verb} significantly worse"
    few = results.seeds <= ENOUGH_SEEDS and worse < len(others)
    power = f"; {results.plan.names.seeds({results.dataset: results.seeds})} show only large differences" if few else ""
    return f"{said} (paired t-tests over seeds at {LEVEL:g}, adjusted by Holm){power}."


def _plain(text: str) -> str:
    """A name in reStructuredText, where some of its characters would be marks."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _number_or_missing(loss: float) -> str:
    return "missing" if np.isnan(loss) else f"{loss:.3f}"


def _percent(share: float) -> str:
    return f"{share:.0f} %".replace("-", "−")


def _number(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def _listed(parts) -> str:
    """A, B and C; with semicolons where a part has commas of its own."""
    *first, last = parts = list(parts)
    if any("," in part for part in parts):
        return "; ".join([*first, f"and {last}" if first else last])
    return f"{', '.join(first)} and {last}" if first else last


def restructured_text(title: str, all_results: Sequence[DatasetResults], table: str, picture: str) -> str:
    """A page in reStructuredText: the title, what was run and found, the headline's table, in html, and the overview.

    The overview is the text of an svg, its caption beneath it. What was found on several data sets is a list.
    """
    results = all_results[0]
    caption = (
        "How far each algorithm comes from CIPS (0 %) to full supervision (100 %) by greedy losses, those of the most "
        "probable actions, and how far π0 does (dashed): means over "
        f"{escape(results.plan.seeds_in_words)} with 95 % intervals."
    )
    texts = [f"- {' '.join(findings(each))}" for each in all_results] if len(all_results) > 1 else findings(results)
    columns = table, f"{picture[picture.index('<svg') :]}<p>{caption}</p>\n"
    beside = "".join(f"<div>\n{column}</div>\n" for column in columns)
    raw = indent(f'<div class="beside">\n{beside}</div>\n', "   ")
    parts = [f"{title}\n{'=' * len(title)}", what_was_compared(all_results), *texts]
    return "\n\n".join([*parts, f".. raw:: html\n\n{raw}"])
