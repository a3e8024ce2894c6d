"""Section of the report on what a policy does: its actions by segment, and the contexts whose action changed."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from drcrm.reports.log_report.answer import Answer
from drcrm.reports.log_report.charts import percent
from drcrm.reports.log_report.formatting import clean_name, format_number, format_share, is_number, plural, shorten
from drcrm.reports.log_report.sections import Cell, Column, Section, Table

MAX_SEGMENTS = 3  # segments that a sentence lists, the largest first
LEVEL_WIDTH = 0.68  # share of the picture's width that the levels of the tree have
LEAF_HEIGHT = 44  # pixels
LABEL_LENGTH, ACTION_LENGTH = 20, 16


class Condition(NamedTuple):
    """A branch of the tree: a condition on one feature, a category or a threshold of a number."""

    feature: str
    category: str | None
    threshold: float
    is_left: bool

    @property
    def label(self) -> str:
        """The condition in the picture."""
        if self.category is not None:
            return f"{shorten(self.feature, 10)} {'=' if self.is_left else '≠'} {shorten(self.category, 10)}"
        return f"{shorten(self.feature, 12)} {'≤' if self.is_left else '>'} {format_number(self.threshold)}"


def policy_changes(answer: Answer) -> Section:
    """Return what the policy does more often than the logging policy, in words and as a tree, and changed contexts."""
    view = answer.part("changes")
    contexts = _contexts(view)
    if not view.get("tree"):
        return {"contexts": contexts, "result": "", "tree": None, "actions": []} if contexts else None
    fidelity = view.get("fidelity")
    return {
        "result": f"{plural(len(view['segments']), 'segment')}, fidelity {format_share(fidelity)}",
        "fidelity": format_share(fidelity) if is_number(fidelity) else "",
        "tree": _draw(view) if len(view["segments"]) > 1 else None,
        "actions": [_describe(view, number) for number in range(len(view["actions"]))],
        "contexts": contexts,
    }


def _contexts(view: Mapping) -> Table | None:
    """Return the table of the contexts whose most probable action changed most surely."""
    columns = [Column("Row"), Column("Logging policy", "name"), Column("Probability")]
    columns += [Column("Policy", "name"), Column("Probability")]
    rows = [
        [
            Cell(str(entry["row"])),
            Cell(clean_name(entry["before"])),
            Cell(format_share(entry["logging"])),
            Cell(clean_name(entry["after"])),
            Cell(format_share(entry["policy"])),
        ]
        for entry in view.get("contexts", ())
    ]
    return Table.of(columns, rows, style="scroll")


def _paths(view: Mapping, number: int = 0, path: tuple[Condition, ...] = ()) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions of each segment, in the order of the leaves from left to right."""
    node = view["tree"][number]
    if "left" not in node:
        yield path
        return
    for side in ("left", "right"):
        condition = Condition(node["feature"], node["category"], node["threshold"], side == "left")
        yield from _paths(view, node[side], (*path, condition))


def _leaves(view: Mapping, number: int = 0) -> Iterator[int]:
    """Yield the number of each segment, in the order of the leaves from left to right."""
    node = view["tree"][number]
    if "left" not in node:
        yield node["segment"]
        return
    for side in ("left", "right"):
        yield from _leaves(view, node[side])


def describe_path(path: tuple[Condition, ...]) -> str:
    """Return the conditions of a segment in words, one for each feature; empty without conditions."""
    texts: dict[str, str] = {}
    limits: dict[str, list[float | None]] = {}
    excluded: dict[str, list[str]] = {}
    for feature, category, threshold, is_left in path:
        name = shorten(feature)
        if category is None:
            ends = limits.setdefault(feature, [None, None])
            ends[is_left] = threshold  # the last branch on a side has the narrowest limit
            words = zip(("above", "at most"), ends, strict=True)
            texts[feature] = f"{name} is " + " and ".join(
                f"{word} {format_number(end)}" for word, end in words if end is not None
            )
        elif is_left:
            texts[feature] = f"{name} is {shorten(category)}"
        else:
            *others, last = excluded[feature] = [*excluded.get(feature, ()), shorten(category)]
            texts[feature] = f"{name} is not {', '.join(others)}{' or ' if others else ''}{last}"
    return " and ".join(texts.values())


def _describe(view: Mapping, index: int) -> dict[str, str]:
    """Return the name of an action, and a sentence on the contexts in which the policy takes it more often."""
    action = view["actions"][index]
    words = dict(zip(_leaves(view), map(describe_path, _paths(view)), strict=True))
    segments = sorted(action["more"], key=lambda number: -view["segments"][number]["share"])
    parts = []
    for number in segments[:MAX_SEGMENTS]:
        segment = view["segments"][number]
        shares, condition = segment["shares"][index], f" if {words[number]}" if words[number] else ""
        parts.append(
            f"{format_share(shares['policy'])} instead of {format_share(shares['logging'])}{condition} "
            f"({format_share(segment['share'])} of the rows)"
        )
    more = len(segments) - MAX_SEGMENTS
    text = "; ".join(parts) + (f"; and in {plural(more, 'smaller segment')}" if more > 0 else "")
    known = f" The tree explains {format_share(action['fidelity'])}." if is_number(action["fidelity"]) else ""
    overall = f"{format_share(action['policy'])} of all rows instead of {format_share(action['logging'])}"
    return {"name": clean_name(action["action"]), "text": f"{overall}. More often: {text or 'nowhere'}.{known}"}


def _draw(view: Mapping) -> dict[str, Any]:
    """Return the tree as a picture: lines and conditions from left to right, and at each leaf the largest increase."""
    leaves = list(_leaves(view))
    depth = max(len(path) for path in _paths(view))
    lines, labels = [], []

    def place(number: int, level: int) -> float:
        """Add the part of the tree below a node; return the height of the node in leaves."""
        node = view["tree"][number]
        if "left" not in node:
            at = leaves.index(node["segment"]) + 0.5
            end = percent(LEVEL_WIDTH)
            lines.append({"x1": percent(LEVEL_WIDTH * level / depth), "x2": end, "y1": at, "y2": at})
            return at
        left, right = LEVEL_WIDTH * level / depth, LEVEL_WIDTH * (level + 1) / depth
        heights = [place(node[side], level + 1) for side in ("left", "right")]
        for height, is_left in zip(heights, (True, False), strict=True):
            condition = Condition(node["feature"], node["category"], node["threshold"], is_left)
            lines.append({"x1": percent(left), "x2": percent(right), "y1": height, "y2": height})
            labels.append({"x": percent(left + 0.005), "y": height, "text": condition.label})
        lines.append({"x1": percent(left), "x2": percent(left), "y1": heights[0], "y2": heights[1]})
        return sum(heights) / 2

    place(0, 0)
    scaled = [line | {end: f"{LEAF_HEIGHT * line[end]:.0f}" for end in ("y1", "y2")} for line in lines]
    labels = [label | {"y": f"{LEAF_HEIGHT * label['y'] - 5:.0f}"} for label in labels]
    texts = [
        {"x": percent(LEVEL_WIDTH + 0.01), "y": f"{LEAF_HEIGHT * (at + 0.5) + 4:.0f}", "text": _leaf_text(view, number)}
        for at, number in enumerate(leaves)
    ]
    return {"height": LEAF_HEIGHT * len(leaves), "lines": scaled, "labels": [*labels, *texts]}


def _leaf_text(view: Mapping, number: int) -> str:
    """Return the largest increase of an action's share in a segment, and the segment's share of the rows."""
    segment = view["segments"][number]
    shares = segment["shares"]
    best = max(range(len(shares)), key=lambda index: shares[index]["policy"] - shares[index]["logging"])
    old, new = (format_share(shares[best][key]) for key in ("logging", "policy"))
    name = shorten(view["actions"][best]["action"], ACTION_LENGTH)
    return f"{name} {old} → {new} ({format_share(segment['share'])} of the rows)"
