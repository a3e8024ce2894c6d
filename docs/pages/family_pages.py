"""Page and figure of a family: experiments that differ in the sharpness of π0 and in the click rates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from drcrm.paper.reports import drawing
from drcrm.paper.reports.figure_data import GREEDY, LOSS
from drcrm.paper.reports.plan import Look, Names
from drcrm.paper.reports.printed_tables import PrintedTable, print_losses
from drcrm.paper.reports.roles import LOGGING, LOSSES, SINGLE, SKYLINE
from drcrm.selection.score_names import SCORES

from .experiment_pages import TERMS, Experiment, format_provenance, format_run

NOISELESS = (1, 0)  # click rates: a click is the right action
WIDE = 6.4  # inches: two panels side by side
LINES = ((LOGGING, LOSS), (SKYLINE, LOSS), (SKYLINE, GREEDY))  # reference lines


@dataclass(frozen=True)
class Family:
    """Finished experiments on the same data sets.

    Parameters
    ----------
    name, about : str
    members : sequence of Experiment
    drawn : sequence of str
        Algorithms of the figure.
    link : str
        Link to the figure.
    """

    name: str
    about: str
    members: Sequence[Experiment]
    drawn: Sequence[str]
    link: str

    @property
    def datasets(self) -> list[str]:
        """The data sets of all members."""
        return list(dict.fromkeys(name for member in self.members for name in member.plan.datasets))

    @property
    def names(self) -> Names:
        """The names of the first member, with the data sets of all."""
        labels = {name: member.plan.names.dataset(name) for member in self.members for name in member.plan.datasets}
        return replace(self.members[0].plan.names, datasets=labels)

    def unit_of(self, dataset: str) -> tuple[float, str]:
        """Return the factor of losses on a data set, and its name: error rates are in %."""
        return (100, " in %") if SINGLE in self.names.by_actions([dataset]) else (1, "")

    @property
    def units(self) -> str:
        """The unit of the losses of all data sets."""
        units = {self.unit_of(dataset)[1] for dataset in self.datasets}
        return units.pop() if len(units) == 1 else ", error rates in %,"

    @property
    def settings(self) -> list[tuple[tuple[float, float], float, Experiment]]:
        """Click rates, η and experiment: without noise first, η rising."""
        settings = [
            (tuple(member.options["click_rates"]), member.options["logging_sharpness"], member)
            for member in self.members
        ]
        return sorted(settings, key=lambda setting: (setting[0] != NOISELESS, setting[0], setting[1]))


def format_page(family: Family) -> str:
    """Return the page: options, the figure, and a table of either loss for each data set."""
    image = f'<img src="{family.link}" alt="Loss by how near-deterministic π0 is" width="640">'
    parts = {"What was run": format_runs(family), "Figure": f"{image}\n\n{format_caption(family)}\n"}
    for dataset in family.datasets:
        parts[family.names.dataset(dataset)] = "\n".join(format_table(family, dataset, metric) for metric in LOSSES)
    texts = [f"## {title}\n\n{text}" for title, text in parts.items()]
    return "\n".join([f"# {family.name}\n\n{family.about} {TERMS}\n", *texts])


def format_runs(family: Family) -> str:
    """Return the options of the first member, and the differences of the others."""
    first, *rest = family.members
    rows = []
    for member in rest:
        changed = {key: value for key, value in member.options.items() if value != first.options.get(key)}
        options = [f"{key}: {value}" for key, value in changed.items() if key != "variant_of"]
        links = [f"[{title}]({link})" for title, link in member.rows.items()]
        rows.append({"Experiment": f"`{member.name}`", "Options": ", ".join(options), "Rows": ", ".join(links)})
    table = PrintedTable("The other experiments differ in:", pd.DataFrame(rows)).markdown() if rows else ""
    provenance = format_provenance(first.provenance)
    texts = {member.name: format_provenance(member.provenance) for member in rest}
    different = [f"`{name}`:\n\n{text}" for name, text in texts.items() if text != provenance]
    return "\n".join(filter(None, [format_run(first), table, *different]))


def loss_table(family: Family, dataset: str, metric: str) -> pd.DataFrame:
    """Return a loss table on a data set, in its unit, with experiments in place of data sets."""
    tables = []
    for _, _, member in family.settings:
        losses = member.tables[metric]
        tables.append(losses[losses["dataset"] == dataset].assign(dataset=member.name))
    table = pd.concat(tables, ignore_index=True)
    factor, _ = family.unit_of(dataset)
    return table.assign(**{name: factor * table[name] for name in ("mean", "standard_error", "ci_low", "ci_high")})


def format_table(family: Family, dataset: str, metric: str) -> str:
    """Return a loss on a data set in Markdown: algorithms × (clicks, η)."""
    table, selection = loss_table(family, dataset, metric), family.members[0].plan.selections[0]
    columns = {
        member.name: f"η = {sharpness:g}" + (", clicks" if clicks != NOISELESS else "")
        for clicks, sharpness, member in family.settings
    }
    factor, unit = family.unit_of(dataset)
    kinds = family.names.actions | dict.fromkeys(columns, *family.names.by_actions([dataset]))
    names, where = replace(family.names, datasets=columns, actions=kinds), f" on {family.names.dataset(dataset)}{unit}"
    return print_losses(table, metric, selection, names, 2 if factor > 1 else 3, where).markdown()


def format_caption(family: Family) -> str:
    """Return the caption of the figure."""
    plan, names = family.members[0].plan, family.names
    clicks = "".join(
        f" In the right column, the reward is a click, with probability {right:g} for the right action and {wrong:g} "
        "for the others."
        for right, wrong in dict.fromkeys(rates for rates, _, _ in family.settings if rates != NOISELESS)
    )
    return (
        f"{names.loss(LOSS, family.datasets)}{family.units} against η, the factor of π0's scores. The larger η, the "
        f"more rarely π0 takes actions with low scores. Points are means over {plan.seeds_in_words} with 95 % "
        f"intervals; hyper-parameters are chosen by {SCORES[plan.selections[0]]}.{clicks} Lines without marks are "
        f"π0 (grey) and full supervision, {names.word('supervised', family.datasets)} (black). Expected losses are "
        "dotted; the greedy loss, which always takes the most probable action, is solid. Both axes are logarithmic. "
        "The tables have all algorithms."
    )


def loss_by_sharpness(family: Family) -> pd.DataFrame:
    """Return the losses of the figure: expected losses, and the skyline's greedy loss, by data set and setting."""
    rows = []
    for clicks, sharpness, member in family.settings:
        for name, loss in [*((name, LOSS) for name in family.drawn), *LINES]:
            table = member.tables[loss].query("algorithm == @name and selection == @member.plan.selections[0]")
            for row in table.itertuples():
                factor, _ = family.unit_of(row.dataset)
                interval = (factor * value for value in (row.mean, row.ci_low, row.ci_high))
                rows.append((row.dataset, clicks, sharpness, name, loss, *interval))
    columns = ["dataset", "clicks", "sharpness", "algorithm", "loss", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def draw_losses(family: Family) -> Figure:
    """Draw expected loss against η on logarithmic axes.

    Data sets are rows and click rates are columns. With one pair of click rates, data sets are in two columns.
    """
    frame, names = loss_by_sharpness(family), family.names
    cells = list(product(family.datasets, dict.fromkeys(frame["clicks"])))
    across = min(2, len(cells))
    down = -(-len(cells) // across)
    figure = Figure(figsize=(WIDE, 2.0 + 2.2 * down))
    is_noisy = len({clicks for _, clicks in cells}) > 1
    panels = figure.subplots(down, across, sharex=True, sharey="row" if is_noisy else False, squeeze=False)
    for axes, (dataset, clicks) in zip(panels.ravel(), cells, strict=False):
        _draw_panel(axes, family, frame[(frame["clicks"] == clicks) & (frame["dataset"] == dataset)])
        noise = "rewards without noise" if clicks == NOISELESS else f"clicks: {clicks[0]:g} and {clicks[1]:g}"
        axes.set_title(names.dataset(dataset) + (f", {noise}" if is_noisy else ""))
        is_single = SINGLE in names.by_actions([dataset])
        axes.set_ylabel("error rate, % (↓ better)" if is_single else f"{names.word('unit', [dataset])}\n(↓ better)")
    for axes in panels.ravel()[len(cells) :]:
        axes.set_axis_off()
    for axes in panels[-1]:
        axes.set_xlabel("η, factor of π0's scores")
    sharpness = sorted(set(frame["sharpness"]))
    panels[0, 0].set_xscale("log", base=2)
    panels[0, 0].set_xticks(sharpness, [f"{value:g}" for value in sharpness])
    panels[0, 0].minorticks_off()
    looks = map(names.look, _drawn(family))
    handles = [*drawing.handles_of(looks, has_line=True), *drawing.handles_of(map(drawing.LINES.get, LINES))]
    figure.suptitle(f"{names.title(LOSS, family.datasets)} by how near-deterministic π0 is")
    return drawing.add_legend(figure, handles, columns=3)


def _drawn(family: Family) -> list[str]:
    """Return the algorithms of the figure that have results."""
    known = {name for member in family.members for name in member.tables[LOSS]["algorithm"]}
    return [name for name in family.drawn if name in known]


def _draw_panel(axes: Axes, family: Family, part: pd.DataFrame) -> None:
    """Draw the curves of one data set and one pair of click rates, on a logarithmic axis with round numbers."""
    drawn = _drawn(family)
    for place, name in enumerate(drawn):
        _draw_curve(axes, part[part["algorithm"] == name], family.names.look(name), place / len(drawn) - 0.5)
    for key in LINES:
        level, look = part[(part["algorithm"] == key[0]) & (part["loss"] == key[1])], drawing.LINES[key]
        axes.plot(level["sharpness"], level["mean"], linestyle=look.line, color=look.colour, linewidth=1.2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_curve(axes: Axes, frame: pd.DataFrame, look: Look, shift: float) -> None:
    """Draw an algorithm's means against η, shifted by at most half an octave so that intervals can be told apart."""
    sharpness, mean, low, high = frame[["sharpness", "mean", "low", "high"]].to_numpy(dtype=float).T
    reach = np.nan_to_num([mean - low, high - mean])
    style = {"color": look.colour, "marker": look.marker, "linewidth": 1.2, "elinewidth": 0.8, "markeredgewidth": 1.5}
    axes.errorbar(sharpness * 2 ** (shift / 2), mean, reach, **style)
