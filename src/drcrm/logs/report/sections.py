"""Contents of the sections of the report on a log. A section is None if the answer has nothing for it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from drcrm.arrays.formats import (
    DASH,
    clean,
    clean_name,
    format_count,
    format_number,
    format_share,
    is_number,
    numbers,
    plural,
    shorten,
)
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.report.answer import LEVELS, Answer
from drcrm.logs.report.candidate import ESTIMATES, Candidate
from drcrm.logs.report.charts import Scale, curve, gauge, histogram

MAX_DRAWN = 8  # largest number of candidates in the chart
MAX_ROWS = 200  # largest number of rows of a table
MAX_INFLUENTIAL = 20
TOLERATED_UNSUPPORTED = 0.005  # share of decisions above which unsupported actions are highlighted
QUANTILES = {"0": "smallest", "0.5": "median", "0.9": "90 %", "0.99": "99 %", "1": "largest", "1.0": "largest"}

Section = Mapping[str, object] | None


class Cell(NamedTuple):
    """A cell of a table.

    ``kind`` is that of its column: name, number, picture, level or sentence. ``detail`` is in small print, ``style``
    bold, bad, refused or a level.
    """

    text: str = DASH
    kind: str = "number"
    detail: str = ""
    style: str = ""
    tags: tuple[str, ...] = ()
    chart: Mapping[str, object] | None = None

    @property
    def is_empty(self) -> bool:
        return self.text in ("", DASH) and self.chart is None


@dataclass(frozen=True)
class Table:
    """Rows of cells by the title of their column, without empty columns.

    ``style`` is a CSS class; ``axis`` labels the charts in the picture column.
    """

    rows: Sequence[Mapping[str, Cell]]
    style: str = "stack"
    axis: Sequence[Mapping[str, str]] = ()

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Cell]], style: str = "stack", scale: Scale | None = None) -> "Table | None":
        """Return the table without its empty columns, or None without rows."""
        used = [title for title in (rows[0] if rows else ()) if any(not row[title].is_empty for row in rows)]
        kept = [{title: row[title] for title in used} for row in rows]
        return cls(kept, style, scale.labels() if scale else ()) if rows else None


def name_cell(name: object, detail: str = "", tags: tuple[str, ...] = ()) -> Cell:
    """Return a cell with a name of the log."""
    return Cell(clean_name(name), "name", detail, tags=tags)


def candidates(answer: Answer) -> Section:
    """Return the candidates with intervals and certificates on one scale, next to the logging policy."""
    if not answer.ranked:
        return None
    drawn, units = answer.compared[:MAX_DRAWN], answer.units
    intervals, bounds = [candidate.interval for candidate in drawn], [candidate.bound for candidate in drawn]
    values = [value for interval in intervals for value in interval]
    logging = units.estimate(answer.logging)
    scale = Scale.over(values + bounds, [*logging, *intervals[0], *bounds[:1]])
    rows = []
    for candidate in drawn:
        colour = "strong" if candidate is answer.chosen else "grey" if candidate.is_logging else "blue"
        refusal = clean(candidate.certificate.get("refused") or "")
        certified = answer.format(candidate.bound) if is_number(candidate.bound) or not refusal else "refused"
        difference, bound = answer.format(candidate.difference.value, sign=True), candidate.difference_bound
        least = f"{units.side} {answer.format(bound, sign=True)}" if is_number(bound) else ""
        chart = gauge(scale, candidate.interval, colour, candidate.bound, logging.value)
        rows.append(
            {
                "Policy": _candidate_name(candidate),
                units.title: Cell(kind="picture", chart=chart),
                "Estimate": Cell(answer.format(candidate.interval.value), style="bold"),
                "Interval": Cell(answer.format_interval(candidate.interval, DASH)),
                f"Certified {units.side}": Cell(certified, detail=refusal, style="refused"),
                "Difference": Cell() if candidate.is_logging else Cell(difference, detail=least),
                "Effective sample size": Cell(format_count(candidate.comparison.get("effective_size"))),
            }
        )
    n_hidden, is_learned = len(answer.compared) - len(drawn), answer.command == "learn"
    result = f"{len(answer.ranked)} compared with the logging policy"
    if is_learned:
        result += f", each the best of its algorithm; {plural(answer.choices, 'candidate')} tried"
    return {
        "title": "Candidates" if len(answer.ranked) > 1 else "Policy",
        "result": result if len(answer.ranked) > 1 else "",
        "rows": "rows of the log" if answer.tested_rows == "rows" else answer.tested_rows,
        "table": Table.of(rows, scale=scale),
        "more": plural(n_hidden, "more candidate") if n_hidden else "",
        "summary": "The best candidate of each algorithm" if is_learned else "Every policy",
        "estimates": _all_estimates(answer),
    }


def _candidate_name(candidate: Candidate) -> Cell:
    roles = ("chosen", candidate.is_chosen), ("logging policy", candidate.is_logging)
    return name_cell(candidate.label, candidate.described_settings, tuple(tag for tag, has_role in roles if has_role))


def _all_estimates(answer: Answer) -> Table | None:
    """Return the table of the candidates of the answer by every estimate."""
    used = [key for key in ESTIMATES if any(part.estimates.get(key) is not None for part in answer.ranked)]
    if not used:
        return None
    rows = [
        {
            "Policy": _candidate_name(candidate),
            **{ESTIMATES[key]: Cell(_format_with_error(answer, candidate.estimates.get(key))) for key in used},
            "Mean weight": Cell(format_number(candidate.comparison.get("mean_weight"))),
            "Unsupported actions": Cell(format_share(candidate.comparison.get("unsupported"))),
        }
        for candidate in answer.ranked[:MAX_ROWS]
    ]
    return Table.of(rows, style="scroll")


def _format_with_error(answer: Answer, estimate: Interval | None) -> str:
    error = "" if estimate is None or not is_number(estimate.standard_error) else estimate.standard_error
    return answer.format(answer.units.convert(estimate)) + (f" ± {answer.format(error)}" if error != "" else "")


def actions(answer: Answer) -> Section:
    """Return how often each action is taken by both policies, largest changes first."""
    ranked = sorted(answer.tables.get("actions", ()), key=_change, reverse=True)
    if not ranked:
        return None
    decimals = 2 if answer.decimals < 4 else answer.decimals - 1
    rows = []
    for action in ranked[:MAX_ROWS]:
        logging, policy, unsupported = (action.get(key) for key in ("logging", "policy", "unsupported"))
        is_bad = is_number(unsupported) and unsupported > TOLERATED_UNSUPPORTED
        rows.append(
            {
                "Action": name_cell(action.get("action")),
                "Logging policy": Cell(format_share(logging)),
                "Policy": Cell(format_share(policy), style="bold"),
                "Unsupported": Cell(format_share(unsupported), style="bad" if is_bad else ""),
                "Rows": Cell(format_count(action.get("rows"))),
                answer.units.title: Cell(format_number(answer.units.convert(action.get("cost")), decimals)),
            }
        )
    first, (before, after) = shorten(ranked[0].get("action"), 24), (ranked[0].get(key) for key in ("logging", "policy"))
    change = f"largest change: {first} from {format_share(before)} to {format_share(after)}"
    return {
        "table": Table.of(rows),
        "has_policy": any(is_number(action.get("policy")) for action in ranked),
        "result": change if is_number(before) and is_number(after) else plural(len(ranked), "action"),
        "more": plural(len(ranked) - MAX_ROWS, "other action") if len(ranked) > MAX_ROWS else "",
    }


def _change(action: Mapping) -> float:
    """Return how much an action's share changes, or its larger share if one is unknown."""
    shares = numbers([action.get("logging"), action.get("policy")])
    return abs(shares[1] - shares[0]) if len(shares) == 2 else max(shares, default=0.0)


def overlap(answer: Answer) -> Section:
    """Return the charts of importance weights and propensities."""
    weights, propensities = answer.tables.get("weights") or {}, answer.tables.get("overlap") or {}
    bins, quantiles = weights.get("histogram"), weights.get("quantiles", {}).items()
    pair = propensities.get("logged"), propensities.get("policy")
    two_digits = partial(format_number, digits=2)
    view = {
        "weights": bins and histogram(bins["edges"], bins["rows"], bins["share"], lambda x: two_digits(10.0**x)),
        "quantiles": [f"{QUANTILES.get(str(key), clean(key))} {format_number(value)}" for key, value in quantiles],
        "propensities": histogram(propensities["edges"], *pair, two_digits) if propensities else None,
    }
    largest = [f"largest importance weight {format_number(value)}" for key, value in quantiles if float(key) == 1]
    result = {"has_policy": bool(propensities.get("policy")), "result": "".join(largest)}
    return {**view, **result} if any(view.values()) else None


def checks(answer: Answer) -> Section:
    """Return every check, worst first, and how many have each level."""
    rows = []
    for check in answer.ranked_checks:
        level, ends = check.level, [check.low, check.high]
        interval = " to ".join(map(format_number, ends)) if all(map(is_number, ends)) else ""
        rows.append(
            {
                "": Cell(LEVELS[level], "level", style=level),
                "Check": name_cell(check.name),
                "Value": Cell(format_number(check.value), detail=interval, style="bold"),
                "Expected": Cell(clean(check.threshold or DASH), "sentence"),
                "Meaning": Cell(clean(check.statement), "sentence", clean(check.source)),
            }
        )
    table = Table.of(rows, style="stack checks")
    n_cautions = answer.count_level("caution")
    words = {"fail": "failed", "caution": "caution" if n_cautions == 1 else "cautions", "good": "good"}
    counts = [f"{format_count(answer.count_level(key))} {words[key]}" for key in LEVELS if answer.count_level(key)]
    return {"table": table, "summary": ", ".join(counts)} if table else None


def influential_rows(answer: Answer) -> Section:
    """Return the rows with the largest share of the estimate, by their number in the file."""
    rows = [
        {
            "Row": Cell(str(int(row["row"])) if is_number(row.get("row")) else DASH),
            "Weight": Cell(format_number(row.get("weight"))),
            answer.units.title: Cell(format_number(answer.units.convert(row.get("cost")))),
            "Share of the estimate": Cell(format_share(row.get("share"))),
        }
        for row in answer.tables.get("largest_rows", ())[:MAX_INFLUENTIAL]
    ]
    table = Table.of(rows, style="scroll narrow")
    return {"table": table, "result": f"{len(rows)} rows with the largest weights"} if table else None


def sensitivity(answer: Answer) -> Section:
    """Return how much better the policy is at least if propensities are wrong, by the factor of their odds."""
    view, units = answer.sensitivity, answer.units
    if view is None:
        return None
    points = [(gamma, units.convert(bound)) for gamma, _, bound in view.curve.tolist() if is_number(bound)]
    if len(points) < 2:
        return None
    breakeven = view.breakeven if is_number(view.breakeven) else None
    factor = "" if breakeven is None else format_number(math.floor(100 * breakeven) / 100)
    return {
        "result": f"better up to a factor of {factor}" if factor else "not shown to be better at any factor",
        "breakeven": factor,
        "gamma": format_number(view.gamma, digits=6),
        "bound": f"{units.side} {answer.format(units.convert(view.bound), sign=True)}",
        "chart": curve({"blue": points}, breakeven),
    }


def breakeven_shift(answer: Answer) -> Section:
    """Return κ*, rounded down, and the smallest share of the traffic that it covers."""
    breakeven = answer.breakeven_shift
    if not is_number(breakeven):
        return None
    rounded = math.floor(1000 * breakeven) / 1000
    share = f"{format_number(100 * math.exp(-rounded))} %"
    limit = format_number(rounded)
    return {"result": f"better up to κ = {limit}", "limit": limit, "share": share}


def running(answer: Answer) -> Section:
    """Return the bound on the difference after each number of rows."""
    view, units = answer.running or {}, answer.units
    points = [(rows, units.convert(bound)) for rows, bound in view.get("curve", ()) if is_number(bound)]
    if len(points) < 2:
        return None
    first = view.get("first_better")
    return {
        "result": f"better from row {format_count(first)} on" if first else "not shown to be better so far",
        "is_asymptotic": view.get("asymptotic", False),
        "chart": curve({"blue": points[len(points) // 20 :]}, first),
    }
