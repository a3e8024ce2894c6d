"""The first page of a report: what was compared, what was found, and what that means."""

import re
from collections.abc import Sequence
from functools import partial
from html import escape
from textwrap import indent

import numpy as np
import pandas as pd

from ..roles import BASELINE, LOGGING, ROLES, SKYLINE
from .comparisons import LEVEL, compare
from .figure_data import GREEDY, LOSS, DatasetResults, closed_gap
from .printed_tables import ENOUGH_SEEDS

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
    return [
        f"On {data} **{label}** is best: {known[best]:.3f}{'' if np.isnan(error) else f' ± {error:.3f}'} "
        f"{words('wrong')}. Beside it, π0 {_has(table['mean'].get(LOGGING, np.nan))}, and "
        f"its most probable actions {_has(results.losses(LOGGING, loss=GREEDY).mean(), 'have')}; CIPS, the plain "
        f"estimate, {_has(table['mean'].get(BASELINE, np.nan))}; full supervision, the most probable actions of "
        f"{words('supervised')}, {_has(results.losses(SKYLINE, loss=GREEDY).mean())}.",
        _way_covered(results, best),
        _others_beaten(results, table, best),
    ]


def _way_covered(results: DatasetResults, best: str) -> str:
    """How far the best algorithm comes, and what that is worth beside π0's most probable actions."""
    if results.losses(BASELINE).mean() <= results.losses(SKYLINE, loss=GREEDY).mean():
        return "CIPS loses no more than full supervision: there is no way between them to measure."
    gap = closed_gap(results).set_index(["algorithm", "loss"])["mean"]
    learned, unlearned = gap[best, LOSS], gap[LOGGING, GREEDY]
    if np.isnan([learned, unlearned]).any():
        return "How far that is from CIPS to full supervision cannot be said: a seed is missing."
    beside = "π0's most probable actions, without learning, are no better than CIPS"
    if unlearned > 0:
        beside = f"taking π0's most probable actions, without learning, comes {_percent(unlearned)} of the way"
    gain = ";" if learned > unlearned else ", and no gain:"
    return f"That is {_percent(learned)} of the way from CIPS to full supervision{gain} {beside}."


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


def _has(loss: float, verb: str = "has") -> str:
    return "lacks a seed" if np.isnan(loss) else f"{verb} {loss:.3f}"


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
        "How far each algorithm comes from CIPS (0 %) to full supervision (100 %), and how far π0 does, as it logs and "
        f"by its most probable (greedy) actions: means over {escape(results.plan.seeds_in_words)} with 95 % intervals."
    )
    texts = [f"- {' '.join(findings(each))}" for each in all_results] if len(all_results) > 1 else findings(results)
    columns = table, f"{picture[picture.index('<svg') :]}<p>{caption}</p>\n"
    beside = "".join(f"<div>\n{column}</div>\n" for column in columns)
    raw = indent(f'<div class="beside">\n{beside}</div>\n', "   ")
    parts = [f"{title}\n{'=' * len(title)}", what_was_compared(all_results), *texts]
    return "\n\n".join([*parts, f".. raw:: html\n\n{raw}"])
