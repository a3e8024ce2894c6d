"""Sections of the report on what a policy does: guardrails, slices, periods, and its actions by segment."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from drcrm.reports.log_report.answer import Answer, Units
from drcrm.reports.log_report.charts import Scale, gauge
from drcrm.reports.log_report.formatting import (
    DASH,
    clean,
    clean_name,
    decimals_for,
    format_count,
    format_number,
    format_share,
    is_number,
    plural,
    shorten,
)
from drcrm.reports.log_report.sections import MAX_ROWS, Cell, Section, Table, name_cell

LEVELS = {"holds": "good", "not shown": "caution", "violated": "fail"}  # status → style of a level
MAX_SEGMENTS = 3  # segments that a sentence lists, the largest first

LIMITS = {False: "above", True: "at most"}  # by whether a branch is the left one


def guardrail_rows(answer: Answer) -> list[dict[str, Cell]]:
    """Return the difference of each outcome from the logging policy, its bound and its margin."""
    rows = []
    for rail in answer.items("guardrails"):
        units, part = Units(bool(rail["reward"])), rail["difference"]
        difference, bound, margin = (
            units.interval(part),
            units.convert(part.get("lower_bound" if rail["status"] == "violated" else "bound")),
            units.convert(rail["margin"]),
        )
        decimals = decimals_for([part.get("standard_error")], [part.get("value")])
        show = partial(format_number, decimals=decimals, sign=True)
        condition = clean(rail["condition"]).replace("-", "−")
        side = "at least" if units.is_reward == (rail["status"] != "violated") else "at most"
        is_relative = "%" in condition and is_number(margin)
        rows.append(
            {
                "": Cell(rail["status"], "level", style=LEVELS[rail["status"]]),
                "Guardrail": name_cell(rail["name"]),
                "Outcome": name_cell(rail["outcome"]),
                "Difference": Cell(show(difference.value), style="bold"),
                "Interval": Cell(
                    f"{show(difference.low)} to {show(difference.high)}" if difference.is_bounded else DASH
                ),
                "Certified": Cell(f"{side} {show(bound)}" if is_number(bound) else DASH),
                "Margin": Cell(f"{condition}, {show(margin)}" if is_relative else condition),
                "Why undecided": Cell(clean(rail.get("refused") or DASH), "sentence"),
            }
        )
    return rows


def guardrails(answer: Answer) -> Section:
    """Return the guardrails, and how many of them hold."""
    rows = guardrail_rows(answer)
    n_holding = sum(row[""].text == "holds" for row in rows)
    result = f"{n_holding} of {plural(len(rows), 'guardrail')} {'holds' if n_holding == 1 else 'hold'}"
    return {"table": Table.of(rows), "result": result} if rows else None


def parts(answer: Answer, kind: str) -> Section:
    """Return the policy's difference from the logging policy on each ``slice`` or in each ``period`` of the log."""
    listed, units = answer.items(f"{kind}s"), answer.units
    differences = [units.interval(part.get("difference")) for part in listed]
    values = [value for interval in differences for value in interval]
    scale = Scale.over(values, [0.0, *(interval.value for interval in differences)])
    rows = []
    for part, difference in zip(listed[:MAX_ROWS], differences, strict=False):
        interval = units.interval({**part, "value": part.get("policy")})
        estimate, ends = answer.format(difference.value, sign=True), answer.format_interval(difference, DASH, sign=True)
        action = name_cell(part["action"], format_share(part.get("share"))) if "action" in part else Cell(kind="name")
        rows.append(
            {
                kind.capitalize(): name_cell(part.get(kind), clean(part.get("column") or "")),
                "Difference": Cell(kind="picture", chart=gauge(scale, difference, "blue", None, 0.0)),
                "Estimate": Cell(estimate, detail=ends, style="bold"),
                "Logging policy": Cell(answer.format(units.convert(part.get("logging")))),
                "Policy": Cell(answer.format(interval.value), detail=answer.format_interval(interval, "")),
                "Rows": Cell(format_count(part.get("rows"))),
                "Effective sample size": Cell(format_count(part.get("effective_size"))),
                "Policy's most frequent action": action,
            }
        )
    more = plural(len(listed) - MAX_ROWS, f"other {kind}") if len(listed) > MAX_ROWS else ""
    return {"table": Table.of(rows, scale=scale), "more": more, "result": plural(len(listed), kind)} if rows else None


def policy_changes(answer: Answer) -> Section:
    """Return what the policy does more often than the logging policy, in words and as a tree, and changed contexts."""
    view = answer.part("changes")
    rows = [
        {
            "Row": Cell(str(entry["row"])),
            "Logging policy": name_cell(entry["before"]),
            "Its probability": Cell(format_share(entry["logging"])),
            "Policy": name_cell(entry["after"]),
            "Probability": Cell(format_share(entry["policy"])),
        }
        for entry in view.get("contexts", ())
    ]
    contexts = Table.of(rows, style="scroll")
    if not view.get("tree"):
        return {"contexts": contexts, "result": "", "tree": None, "actions": []} if contexts else None
    segments, fidelity = list(_segments(view)), view.get("fidelity")
    words = {number: describe_path(path) for number, path in segments}
    return {
        "result": f"{plural(len(segments), 'segment')}, fidelity {format_share(fidelity)}",
        "fidelity": format_share(fidelity) if is_number(fidelity) else "",
        "tree": _branch(view) if len(segments) > 1 else None,
        "actions": [_describe(view, index, words) for index in range(len(view["actions"]))],
        "contexts": contexts,
    }


def _segments(view: Mapping, number: int = 0, path: tuple[Mapping, ...] = ()) -> Iterator[tuple[int, tuple]]:
    """Yield the number of each segment below a node of the tree, and the nodes above it with the side that it is on."""
    node = view["tree"][number]
    if "left" not in node:
        yield node["segment"], path
        return
    for side in ("left", "right"):
        yield from _segments(view, node[side], (*path, {**node, "is_left": side == "left"}))


def describe_path(path: tuple[Mapping, ...]) -> str:
    """Return the conditions of a segment in words, one for each feature; empty without conditions."""
    parts = []
    for feature in dict.fromkeys(node["feature"] for node in path):
        nodes = [node for node in path if node["feature"] == feature]
        limits = {node["is_left"]: format_number(node["threshold"]) for node in nodes}  # the last is the narrowest
        words = [f"{LIMITS[is_left]} {limits[is_left]}" for is_left in LIMITS if is_left in limits]
        if nodes[0]["category"] is not None:
            left, right = ([shorten(n["category"]) for n in nodes if n["is_left"] == side] for side in (True, False))
            words = left or ["not " + " or ".join(filter(None, (", ".join(right[:-1]), right[-1])))]
        parts.append(f"{shorten(feature)} is {' and '.join(words)}")
    return " and ".join(parts)


def _describe(view: Mapping, index: int, words: Mapping[int, str]) -> dict[str, str]:
    """Return the name of an action, and a sentence on the contexts in which the policy takes it more often."""
    action = view["actions"][index]
    segments = sorted(action["more"], key=lambda number: -view["segments"][number]["share"])
    parts = []
    for number in segments[:MAX_SEGMENTS]:
        segment, condition = view["segments"][number], f" if {words[number]}" if words[number] else ""
        parts.append(f"{_change(segment['shares'][index])}{condition} ({format_share(segment['share'])} of the rows)")
    more = len(segments) - MAX_SEGMENTS
    text = "; ".join(parts) + (f"; and in {plural(more, 'smaller segment')}" if more > 0 else "")
    known = f" The tree explains {format_share(action['fidelity'])}." if is_number(action["fidelity"]) else ""
    overall = _change(action, " of all rows")
    return {"name": clean_name(action["action"]), "text": f"{overall}. More often: {text or 'nowhere'}.{known}"}


def _change(shares: Mapping, of: str = "") -> str:
    """Return an action's share under the policy, and under the logging policy."""
    return f"{format_share(shares['policy'])}{of} instead of {format_share(shares['logging'])}"


def _branch(view: Mapping, number: int = 0, label: str = "") -> dict[str, Any]:
    """Return a node of the tree: the condition that leads to it, and its branches or the largest increase there."""
    node = view["tree"][number]
    if "left" not in node:
        segment = view["segments"][node["segment"]]
        increases = [shares["policy"] - shares["logging"] for shares in segment["shares"]]
        best = increases.index(max(increases))
        change, rows = _change(segment["shares"][best]), format_share(segment["share"])
        return {"label": label, "action": view["actions"][best]["action"], "text": f"{change} ({rows} of the rows)"}
    if node["category"] is not None:
        yes, no, end = "=", "≠", shorten(node["category"])
    else:
        yes, no, end = "≤", ">", format_number(node["threshold"])
    sides = ("left", yes), ("right", no)
    branches = [_branch(view, node[side], f"{shorten(node['feature'])} {sign} {end}") for side, sign in sides]
    return {"label": label, "branches": branches}
