"""First page of an experiment's report: the findings, the overview with the main table, and what was compared."""

import re
from collections.abc import Sequence
from html import escape
from textwrap import indent

import numpy as np
import pandas as pd

from drcrm.paper.reports.figure_data import GREEDY, DatasetResults, closed_gap
from drcrm.paper.reports.markup import number, with_error
from drcrm.paper.reports.plan import join
from drcrm.paper.reports.result_tables import LEVEL, compare
from drcrm.paper.reports.roles import BASELINE, ENOUGH_SEEDS, LOGGING, ROLES, SKYLINE


def format_page(title: str, all_results: Sequence[DatasetResults], table: str, svg: str) -> str:
    """Return the page in reStructuredText.

    Parameters
    ----------
    title : str
    all_results : sequence of DatasetResults
        Results on each data set. If there are several, the findings become a list with one item for each. The caption
        of their plan is that of the overview.
    table : str
        The main table, in HTML.
    svg : str
        Content of the overview's svg file.
    """
    columns = f"{svg[svg.index('<svg') :]}<p>{escape(all_results[0].plan.caption)}</p>\n", table
    cells = "".join(f"<div>\n{column}</div>\n" for column in columns)
    raw = indent(f'<div class="beside">\n{cells}</div>\n', "   ")
    texts = findings(all_results[0])
    if len(all_results) > 1:
        texts = [f"- {' '.join(findings(results))}" for results in all_results]
    parts = [f"{title}\n{'=' * len(title)}", *texts, f".. raw:: html\n\n{raw}", comparison(all_results)]
    return "\n\n".join(parts)


def comparison(all_results: Sequence[DatasetResults]) -> str:
    """Return which algorithms were compared on which logs."""
    first = all_results[0]
    names = [_plain(first.plan.names.label(name)) for name in first.learned]
    data = join(_plain(results.plan.names.dataset(results.dataset)) for results in all_results)
    log = f" The log: {_plain(first.plan.log)}." if first.plan.log else ""
    count = first.counts[0]
    learners = f"{len(names)} algorithm{'' if len(names) == 1 else 's'}"
    return (
        f"{learners} learned a policy from the log of the logging policy π0 "
        f"on {data}: {join(names)}. The log contains the actions of π0 and their costs in {count} "
        f"pass{'' if count == 1 else 'es'} over the training contexts.{log} Everything was run with "
        f"{_plain(first.plan.seeds_in_words)}."
    )


def findings(results: DatasetResults) -> list[str]:
    """Return how good the best algorithm is, how far from full supervision, and which algorithms it beats."""
    table = compare(pd.DataFrame({name: results.losses(name) for name in results.algorithms}))
    means = table["mean"].drop(list(ROLES), errors="ignore").dropna()
    data = _plain(results.plan.names.dataset(results.dataset))
    if means.empty:
        return [f"On {data} every algorithm lacks a seed, so nothing can be compared."]
    best = str(means.idxmin())
    wrong, supervised = (results.plan.names.word(key, [results.dataset]) for key in ("wrong", "supervised"))
    loss = with_error(number(means[best]), table["standard_error"][best])
    label = _plain(results.plan.names.label(best))
    expected = table["mean"].reindex([LOGGING, BASELINE, SKYLINE]).map(number)
    texts = [
        f"On {data} **{label}** is best: {loss} {wrong}. "
        f"Expected losses for comparison: π0 {expected[LOGGING]}, CIPS (the plain estimate) {expected[BASELINE]}, full "
        f"supervision ({supervised}) {expected[SKYLINE]}.",
        _gap_closed(results, best, label),
        _algorithms_beaten(results, table, best, label),
    ]
    return [*filter(None, texts)]


def _gap_closed(results: DatasetResults, best: str, label: str) -> str:
    """Return how much of the gap between CIPS and full supervision the best algorithm and π0 close."""
    means = {name: results.losses(name, loss=GREEDY).mean() for name in (best, LOGGING, BASELINE, SKYLINE)}
    numbers = {name: number(mean) for name, mean in means.items()}
    greedy = (
        f"Greedy losses, of the most probable actions: {label} {numbers[best]}, π0 {numbers[LOGGING]}, CIPS "
        f"{numbers[BASELINE]}, full supervision {numbers[SKYLINE]}."
    )
    if np.isnan(list(means.values())).any():
        return f"{greedy} A seed is missing, so the gap between CIPS and full supervision cannot be measured."
    if means[BASELINE] <= means[SKYLINE]:
        return f"{greedy} CIPS is as good as full supervision, so there is no gap to close."
    gap = closed_gap(results).set_index("algorithm")["mean"]
    closed = gap.map(lambda share: f"{number(share, '.0f')} %")
    logging = f"closes {closed[LOGGING]} of it" if gap[LOGGING] > 0 else "has no smaller loss than CIPS"
    gain = "" if gap[best] > gap[LOGGING] else ", less than π0"
    return (
        f"{greedy} {label} closes {closed[best]} of the gap between CIPS and full supervision{gain}. "
        f"π0 itself {logging}."
    )


def _algorithms_beaten(results: DatasetResults, table: pd.DataFrame, best: str, label: str) -> str:
    """Return how many other algorithms are significantly worse; warn if seeds are too few to show small differences.

    The text is empty for one seed, which allows no test.
    """
    rivals = [name for name in results.learned if name != best]
    n_worse = int((table.loc[rivals, "p_holm"] < LEVEL).sum())
    if not rivals:
        return "There is no other algorithm to compare with."
    if results.seeds < 2:
        return ""
    seeds = results.plan.names.seeds({results.dataset: results.seeds})
    has_little_power = results.seeds <= ENOUGH_SEEDS and n_worse < len(rivals)
    warning = f" With {seeds}, only large differences can be significant." if has_little_power else ""
    return (
        f"Paired t-tests over seeds compare {label} with {len(rivals)} other algorithms (level {LEVEL:g}, adjusted by "
        f"Holm). {label} is significantly better than {n_worse or 'none'} of them.{warning}"
    )


def _plain(text: str) -> str:
    """Escape the characters of a name that are markup in reStructuredText."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)
