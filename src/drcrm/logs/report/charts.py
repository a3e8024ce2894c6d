"""Positions of the marks in the charts of the report on a log.

The templates draw charts as SVG. Positions are percentages of the width or height, so text keeps its size. Charts show
numbers only, no names of a log.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from drcrm.arrays.formats import ConfidenceInterval, format_number, format_share, is_number, numbers

MARGIN = 0.04  # share of the width, on both sides
BAR_WIDTH = 0.84  # share of a bin
MAX_TICKS = 5
TREE_INDENT, NODE_HEIGHT, LEAF_HEIGHT = 24, 34, 120  # pixels of a tree


def percent(share: float) -> str:
    """Return a share as a length in SVG."""
    return f"{100 * share:.2f}%"


class Scale(NamedTuple):
    """The numbers at the ends of an axis."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[object], core: Iterable[object] = ()) -> "Scale":
        """Return a scale that contains the ``core`` and those ``values`` that are at most its width away from it."""
        outer = numbers(values)
        inner = numbers(core) or outer or [0.0, 1.0]
        low, high = min(inner), max(inner)
        reach = high - low
        low, high = (max(min([low, *outer]), low - reach), min(max([high, *outer]), high + reach))
        size = max(abs(low), abs(high))
        if high - low <= 1e-9 * size or size < 1e-90:
            padding = size / 2 if size > 1e-90 else 0.5
            low, high = low - padding, high + padding
        margin = MARGIN * (high - low) / (1 - 2 * MARGIN)
        return cls(low - margin, high + margin)

    def share(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def at(self, value: float) -> str:
        """Return the position of a value in percent; a value beyond an end is at that end."""
        return percent(min(max(self.share(value), 0), 1))

    def height(self, value: float) -> str:
        """Return the distance of a value from the top of a chart in percent."""
        return percent(1 - self.share(value))

    def contains(self, value: float) -> bool:
        """Return whether a value is between the ends."""
        return -1e-9 <= self.share(value) <= 1 + 1e-9

    def ticks(self) -> list[float]:
        """Return round numbers between the ends."""
        rough = (self.high - self.low) / MAX_TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [index * step for index in range(first, last + 1)]

    def labels(self) -> list[dict[str, str]]:
        """Return the position, text and anchor of each tick."""
        ticks = self.ticks()
        if len(ticks) < 2:
            return [label(self.share(tick), format_number(tick)) for tick in ticks]
        decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
        return [label(self.share(tick), format_number(tick, decimals if decimals < 7 else None)) for tick in ticks]


def label(share: float, text: str) -> dict[str, str]:
    """Return a label of an axis that stays within its ends."""
    anchor = "start" if share < 0.03 else "end" if share > 0.97 else "middle"
    return {"at": percent(share), "text": text, "anchor": anchor}


def gauge(
    scale: Scale, interval: ConfidenceInterval, colour: str, bound: float | None = None, logging: float | None = None
) -> Mapping[str, object]:
    """Return a horizontal chart of an estimate with its interval and bound, next to the logging policy's value.

    Arrows mark ends of the interval beyond the scale. The dot is hollow if the estimate is beyond the scale.
    """
    ends, arrows = None, []
    if is_number(interval.low) and is_number(interval.high):
        ends = scale.at(interval.low), scale.at(interval.high)
        arrows = ["0%"] * (scale.share(interval.low) < 0) + ["100%"] * (scale.share(interval.high) > 1)
    return {
        "colour": colour,
        "grid": [scale.at(tick) for tick in scale.ticks()],
        "logging": scale.at(logging) if is_number(logging) else None,
        "ends": ends,
        "arrows": arrows,
        "bound": scale.at(bound) if is_number(bound) and scale.contains(bound) else None,
        "dot": scale.at(interval.value) if is_number(interval.value) else None,
        "is_hollow": is_number(interval.value) and not scale.contains(interval.value),
    }


def draw_tree(nodes: Sequence[Mapping[str, object]], scale: Scale) -> Mapping[str, object]:
    """Return a tree with a node below the other, and below each leaf its share and the gauge of its gain.

    A node has a ``depth``, the place of its ``parent``, and texts. A leaf also has a ``share`` and a ``gauge``.
    """
    deepest, top, placed = max(node["depth"] for node in nodes), 12, []
    for node in nodes:
        x, parent = TREE_INDENT * node["depth"] + 6, node["parent"]
        edge = None if parent is None else f"M{placed[parent]['x']} {placed[parent]['y'] + 5}V{top}H{x}"
        placed.append({**node, "x": x, "y": top, "edge": edge, "width": percent(min(max(node.get("share", 0), 0), 1))})
        top += LEAF_HEIGHT if "share" in node else NODE_HEIGHT
    return {"nodes": placed, "left": TREE_INDENT * deepest + 18, "height": top - 6, "labels": scale.labels()}


def histogram(
    edges: Sequence[float], grey: Sequence[float], blue: Sequence[float] | None, format_edge: Callable[[float], str]
) -> Mapping[str, object]:
    """Return one or two histograms over the same bins; two are drawn as pairs of bars.

    Parameters
    ----------
    edges : sequence of float, one more than there are bins
    grey, blue : sequence of float
        Counts or weights, drawn as shares of their sums. ``blue`` may be None.
    format_edge : callable
        Returns the label of an edge.
    """
    pair = [[size / (math.fsum(sizes) or 1.0) for size in sizes] for sizes in (grey, blue) if sizes]
    n_bins, peak, width = len(edges) - 1, max(map(max, pair)) or 1.0, BAR_WIDTH / len(pair)
    bars = [
        _bar((index + (1 - BAR_WIDTH) / 2 + width * place) / n_bins, width / n_bins, size / peak, colour)
        for place, (sizes, colour) in enumerate(zip(pair, ("grey", "blue"), strict=False))
        for index, size in enumerate(sizes)
        if size > 0
    ]
    ticks = range(0, n_bins + 1, max(1, round(n_bins / 4)))
    labels = [label(index / n_bins, format_edge(edges[index])) for index in ticks]
    return {"peak": format_share(peak), "bars": bars, "labels": labels}


def _bar(left: float, width: float, height: float, colour: str) -> dict[str, str]:
    """Return an upright bar in shares of its chart, at least 1.5 % high so that it can be seen."""
    height = max(height, 0.015)
    return {
        "colour": colour,
        "x": percent(left),
        "width": percent(width),
        "y": percent(1 - height),
        "height": percent(height),
    }


def curve(lines: Mapping[str, Sequence[tuple[float, float]]], mark: float | None) -> Mapping[str, object]:
    """Return lines through points by their style, a horizontal line at 0, and a vertical one at ``mark``.

    The first line has the ends of the axis. Lines are in percent of the width and of the height.
    """
    points = next(iter(lines.values()))
    x = Scale(points[0][0], points[-1][0])
    y = Scale.over([0.0, *(value for line in lines.values() for _, value in line)])
    paths = {
        style: " ".join(f"{x.at(left)},{y.height(value)}".replace("%", "") for left, value in line)
        for style, line in lines.items()
    }
    return {
        "paths": paths,
        "level": y.height(0.0),
        "mark": x.at(mark) if is_number(mark) and x.contains(mark) else None,
        "horizontal": [y.height(tick) for tick in y.ticks()],
        "values": y.labels(),
        "labels": x.labels(),
    }
