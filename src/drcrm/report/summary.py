"""What an experiment found, in three sentences."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

import pandas as pd

from ..registry import LOGGING, ROLES, SCORES
from .comparisons import LEVEL, compare
from .figure_data import GREEDY, LOSS, DatasetResults, closed_gap
from .markup import seeds_in_print


def sentences(all_results: Sequence[DatasetResults]) -> list[str]:
    """The best algorithm on each data set, how far it comes to full supervision, and which others it beats."""
    tables = [_compared(results) for results in all_results]
    best = [table["mean"].drop(list(ROLES), errors="ignore").idxmin() for table in tables]
    headline = SCORES[all_results[0].selections[0]].label
    return [
        f"Chosen by {headline}, the smallest expected Hamming loss of what is learned from the logs is "
        f"{_listed(map(_loss, all_results, tables, best))}.",
        f"Of the way from CIPS to full supervision that is {_listed(map(_share, all_results, best))}; π0's most "
        f"probable actions come to {_listed(map(_greedy_share, all_results))}.",
        f"Significantly worse than it, by paired t-tests over seeds at {LEVEL:g} adjusted by Holm, are "
        f"{_listed(map(_worse, all_results, tables, best))}.",
    ]


def what_was_run(all_results: Sequence[DatasetResults]) -> str:
    """The algorithms, data sets, seeds and the replay count, in a sentence."""
    first = all_results[0]
    learned = [first.names.label(name) for name in first.learned]
    data = _listed(results.names.dataset(results.dataset) for results in all_results)
    runs = f"{seeds_in_print(first.seeds)}, at replay count {first.counts[0]}"
    return f"{_listed(learned)} learned from logs of π0 on {data}: {runs}."


def _compared(results: DatasetResults) -> pd.DataFrame:
    losses = {name: results.losses(name) for name in results.algorithms}
    return compare(pd.DataFrame(losses))


def _loss(results: DatasetResults, table: pd.DataFrame, best: str) -> str:
    at = table.loc[best]
    error = "" if pd.isna(at["standard_error"]) else f" ± {at['standard_error']:.3f}"
    return f"{at['mean']:.3f}{error} on {results.names.dataset(results.dataset)} ({results.names.label(best)})"


def _share(results: DatasetResults, best: str) -> str:
    gap = closed_gap(results)
    return f"{gap.loc[(gap['algorithm'] == best) & (gap['loss'] == LOSS), 'mean'].iloc[0]:.0f} %"


def _greedy_share(results: DatasetResults) -> str:
    gap = closed_gap(results)
    return f"{gap.loc[(gap['algorithm'] == LOGGING) & (gap['loss'] == GREEDY), 'mean'].iloc[0]:.0f} %"


def _worse(results: DatasetResults, table: pd.DataFrame, best: str) -> str:
    others = [name for name in results.learned if name != best]
    worse = int((table.loc[others, "p_holm"] < LEVEL).sum())
    few = "" if results.seeds > 5 else f" (little power: {seeds_in_print(results.seeds)})"
    return f"{worse} of {len(others)} others on {results.names.dataset(results.dataset)}{few}"


def _listed(parts) -> str:
    """A, B and C; with semicolons where a part has commas of its own."""
    *first, last = parts = list(parts)
    if any("," in part for part in parts):
        return "; ".join([*first, f"and {last}" if first else last])
    return f"{', '.join(first)} and {last}" if first else last


def restructured_text(title: str, all_results: Sequence[DatasetResults], picture: str) -> str:
    """A page in reStructuredText: the title, the sentences, and the overview, the text of an svg, with a caption."""
    results = all_results[0]
    caption = (
        f"0 % is CIPS, 100 % the greedy loss of a CRF that sees all labels; dotted lines are π0, dashed ones its most "
        f"probable actions. Means over {seeds_in_print(results.seeds)} with 95 % intervals, at replay count "
        f"{results.counts[0]}."
    )
    text = "\n\n".join([f"{title}\n{'=' * len(title)}", what_was_run(all_results), *sentences(all_results)])
    inside = indent(picture[picture.index("<svg") :], "   ")
    return f"{text}\n\n.. raw:: html\n\n{inside}\n\n{caption}\n"
