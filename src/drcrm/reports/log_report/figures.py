"""Pictures of the page on a log, as inline SVG: marks stand at percentages of the width, so that text keeps its size.

No text of a log is in them, only numbers; names stand beside them in HTML.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from drcrm.reports.log_report.answer import Interval
from drcrm.reports.log_report.formatting import finite, known, number, percent

MOST_BINS = 24
MARGIN = 0.04  # of the width, on both sides
CHART = 150  # pixels: the height of a chart above its axis


class Scale(NamedTuple):
    """Where numbers stand between the left end and the right end of a picture; logarithmic where that is said."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[object], core: Iterable[object] = ()) -> "Scale":
        """A scale that holds the core, and of the other values what is at most one width of the core beside it."""
        others = finite(values)
        inner = finite(core) or others or [0.0, 1.0]
        low, high = min(inner), max(inner)
        reach = high - low
        low, high = (max(min([low, *others]), low - reach), min(max([high, *others]), high + reach))
        size = max(abs(low), abs(high))
        if high - low <= 1e-9 * size or size < 1e-90:
            pad = size / 2 if size > 1e-90 else 0.5
            low, high = low - pad, high + pad
        margin = MARGIN * (high - low) / (1 - 2 * MARGIN)
        return cls(low - margin, high + margin)

    def share(self, value: float) -> float:
        """The place of a value, from 0 to 1; beyond where it is beyond."""
        low, high, at = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return (at - low) / (high - low)

    def at(self, value: float) -> str:
        """The place of a value, in percent, at the end where it is beyond."""
        return f"{100 * min(max(self.share(value), 0), 1):.2f}%"

    def inside(self, value: float) -> bool:
        """Whether a value is not beyond the ends."""
        return -1e-9 <= self.share(value) <= 1 + 1e-9

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers between the ends."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
            inner = [value for value in values if self.inside(value)]
            return inner if len(inner) <= most else [v for v in inner if f"{v:.0e}".startswith("1")][:most]
        rough = (self.high - self.low) / most
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [index * step for index in range(first, last + 1)]

    def labels(self) -> list[tuple[float, str]]:
        """Round numbers, and how they are printed."""
        ticks = self.ticks()
        if self.log or len(ticks) < 2:
            return [(tick, f"{tick:g}".replace("-", "−")) for tick in ticks]
        decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
        return [(tick, number(tick, decimals if decimals < 7 else None)) for tick in ticks]


def line(x: str, colour: str, extra: str = "") -> str:
    """An upright line over the whole height."""
    return f'<line class="{colour}" x1="{x}" x2="{x}" y1="0" y2="100%"{extra}/>'


def gauge(scale: Scale, given: Interval, look: str, bound: float | None = None, now: float | None = None) -> str:
    """An estimate with its interval and its bound on a line, beside what is now; ends that are beyond are arrows."""
    parts = [line(scale.at(tick), "grid") for tick in scale.ticks()]
    if known(now):
        parts.append(line(scale.at(now), "now"))
    if known(given.low) and known(given.high):
        low, high = scale.at(given.low), scale.at(given.high)
        parts.append(f'<line class="reach {look}" x1="{low}" x2="{high}" y1="50%" y2="50%"/>')
        parts += [beyond(end, end == "0%", look) for end in ends(scale, given)]
    if known(bound) and scale.inside(bound):
        parts.append(f'<rect class="bound {look}" x="{scale.at(bound)}" y="50%" width="4" height="18"/>')
    if known(given.value):
        hollow = "" if scale.inside(given.value) else " away"
        parts.append(f'<circle class="dot {look}{hollow}" cx="{scale.at(given.value)}" cy="50%" r="5"/>')
    return f'<svg class="gauge" aria-hidden="true">{"".join(parts)}</svg>'


def ends(scale: Scale, given: Interval) -> list[str]:
    """The ends of a picture that an interval goes beyond."""
    return ["0%"] * (scale.share(given.low) < 0) + ["100%"] * (scale.share(given.high) > 1)


def beyond(end: str, left: bool, look: str) -> str:
    """An arrow at an end of a picture."""
    sign = -1 if left else 1
    arrow = f"M{sign * 5} 0L{-sign * 4} 5V-5Z"
    return (
        f'<svg x="{end}" y="50%" width="1" height="1" overflow="visible"><path class="fill {look}" d="{arrow}"/></svg>'
    )


def axis(scale: Scale) -> str:
    """The numbers under gauges."""
    texts = [tick_text(scale.share(tick), said) for tick, said in scale.labels()]
    return f'<svg class="axis" aria-hidden="true">{"".join(texts)}</svg>'


def tick_text(share: float, said: str, height: int = 13) -> str:
    """A number under an axis, within its ends."""
    anchor = "start" if share < 0.03 else "end" if share > 0.97 else "middle"
    return f'<text x="{100 * share:.2f}%" y="{height}" text-anchor="{anchor}">{said}</text>'


def merged(edges: Sequence[float], *series: Sequence[float]) -> tuple[list[float], list[list[float]]]:
    """A histogram of at most ``MOST_BINS`` bins, neighbours put together."""
    bins = len(edges) - 1
    by = -(-bins // MOST_BINS)
    starts = range(0, bins, by)
    kept = [edges[start] for start in starts] + [edges[bins]]
    return kept, [[math.fsum(each[start : start + by]) for start in starts] for each in series]


def shares(values: Sequence[object]) -> list[float]:
    """Counts or weights as shares of their sum."""
    sizes = [max(float(value), 0.0) if known(value) else 0.0 for value in values]
    total = math.fsum(sizes)
    return [size / total if total > 0 else 0.0 for size in sizes]


def histogram(edges: object, one: object, other: object, form, what: str) -> str:
    """Two histograms over the same bins, as pairs of bars; nothing where their lengths do not fit.

    Parameters
    ----------
    edges : sequence of float, of one more than there are bins
    one, other : sequence of float, or None
        Counts or weights; drawn as shares of their sums, the first in grey.
    form : callable
        An edge in print.
    what : str
        What a screen reader says.
    """
    series = [each for each in (one, other) if each]
    if not series or not all(isinstance(each, list | tuple) for each in (edges, *series)):
        return ""
    rising = len(finite(edges)) == len(edges) > 1 and all(left < right for left, right in pairwise(edges))
    if not rising or any(len(each) != len(edges) - 1 for each in series):
        return ""
    kept, pair = merged(edges, *map(shares, series))
    bins, top = len(kept) - 1, max(map(max, pair)) or 1.0
    wide = 0.84 / len(pair)
    bars = [
        bar((index + 0.08 + wide * place) / bins, wide / bins, size / top, look)
        for place, (sizes, look) in enumerate(zip(pair, ("grey", "blue"), strict=False))
        for index, size in enumerate(sizes)
        if size > 0
    ]
    every = max(1, round(bins / 4))
    ticks = [tick_text(index / bins, form(kept[index]), CHART + 18) for index in range(0, bins + 1, every)]
    lines = f'<line class="base" x1="0" x2="100%" y1="{CHART}" y2="{CHART}"/>'
    peak = f'<text class="peak" x="0" y="11">{percent(top)}</text><line class="grid" x1="0" x2="100%" y1="16" y2="16"/>'
    area = f'<svg y="16" width="100%" height="{CHART - 16}">{"".join(bars)}</svg>'
    label = f'role="img" aria-label="{what}"'
    return f'<svg class="chart" height="{CHART + 24}" {label}>{peak}{area}{lines}{"".join(ticks)}</svg>'


def bar(left: float, width: float, height: float, look: str) -> str:
    """A bar, in shares of its picture; at least two pixels high."""
    tall = max(100 * height, 1.5)
    return (
        f'<rect class="fill {look}" x="{100 * left:.2f}%" width="{100 * width:.2f}%" y="{100 - tall:.2f}%"'
        f' height="{tall:.2f}%"/>'
    )


def two_bars(one: object, other: object, most: float) -> str:
    """Two shares as lying bars, the first in grey."""
    bars = [
        f'<rect class="fill {look}" x="0" y="{top}%" height="32%" width="{100 * min(max(value / most, 0), 1):.2f}%"/>'
        for value, look, top in ((one, "grey", 14), (other, "blue", 52))
        if known(value) and most > 0
    ]
    return f'<svg class="gauge" aria-hidden="true">{"".join(bars)}</svg>'


def calibration(points: Sequence[tuple[float, float]]) -> str:
    """Logged propensities (across) and a model's (up), all positive, as points beside the line where they agree."""
    values = [value for point in points for value in point]
    low, high = min(values), max(values)
    scale = Scale(low / 1.3, high * 1.3, log=True) if high > 12 * low > 0 else Scale.over([0.0, *values])
    grid = [line(scale.at(tick), "grid") for tick in scale.ticks()]
    grid += [
        f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        for y in (f"{100 * (1 - scale.share(tick)):.2f}%" for tick in scale.ticks())
    ]
    dots = [
        f'<circle class="dot blue" cx="{scale.at(x)}" cy="{100 * (1 - scale.share(y)):.2f}%" r="5"/>' for x, y in points
    ]
    sides = [
        f'<text class="side" x="-6" y="{100 * (1 - scale.share(tick)):.2f}%" dy="4" text-anchor="end">{said}</text>'
        for tick, said in scale.labels()
    ]
    agree = '<line class="base" x1="0" y1="100%" x2="100%" y2="0"/>'
    picture = f'<svg class="square" role="img" aria-label="Calibration">{"".join([*grid, agree, *dots, *sides])}</svg>'
    return f'<div class="sided">{picture}{axis(scale)}</div>'
