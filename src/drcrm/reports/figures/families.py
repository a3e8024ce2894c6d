"""The page of experiments that differ in how sharp π0 is and in what is clicked: their tables and one figure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from drcrm.reports.figures import drawing
from drcrm.reports.figures.figure_data import GREEDY, LOSS
from drcrm.reports.figures.style import WIDTH, Names
from drcrm.reports.roles import LOGGING, LOSSES, SINGLE, SKYLINE
from drcrm.reports.tables import documents
from drcrm.reports.tables import printed_tables as printed
from drcrm.selection.score_names import SCORES

CERTAIN = (1, 0)  # the click rates where a reward is the right action
LINES = ((LOGGING, LOSS), (SKYLINE, LOSS), (SKYLINE, GREEDY))  # what algorithms are compared with


@dataclass(frozen=True)
class Family:
    """Finished experiments on the same data sets, and what their page shows of them.

    Parameters
    ----------
    name, about : str
    members : sequence of Experiment
    drawn : sequence of str
        The algorithms that the figure has, of those that were run.
    link : str
        Where the page has the figure from.
    """

    name: str
    about: str
    members: Sequence[documents.Experiment]
    drawn: Sequence[str]
    link: str

    @property
    def datasets(self) -> list[str]:
        """The data sets of all members."""
        return list(dict.fromkeys(name for each in self.members for name in each.plan.datasets))

    @property
    def names(self) -> Names:
        """The names of the first, with the data sets of all."""
        labels = {name: each.plan.names.dataset(name) for each in self.members for name in each.plan.datasets}
        return replace(self.members[0].plan.names, datasets=labels)

    def in_print(self, dataset: str) -> tuple[float, str]:
        """By what a loss on a data set is multiplied, and what is said of it: error rates are in %."""
        return (100, " in %") if SINGLE in self.names.by_actions([dataset]) else (1, "")

    @property
    def units(self) -> str:
        """What is said of the losses of all data sets."""
        said = {self.in_print(each)[1] for each in self.datasets}
        return said.pop() if len(said) == 1 else ", error rates in %,"

    @property
    def by_setting(self) -> list[tuple[tuple[float, float], float, documents.Experiment]]:
        """Click rates, η and experiment: certain clicks first, η rising."""
        settings = [
            (tuple(each.options["click_rates"]), each.options["logging_sharpness"], each) for each in self.members
        ]
        return sorted(settings, key=lambda each: (each[0] != CERTAIN, each[0], each[1]))


def page(family: Family) -> str:
    """The page of a family: what was run, the figure, and of each data set a table of either loss."""
    parts = {"What was run": what_was_run(family), "Figure": f"{picture(family)}\n\n{caption(family)}\n"}
    for dataset in family.datasets:
        parts[family.names.dataset(dataset)] = "\n".join(table(family, dataset, metric) for metric in LOSSES)
    texts = [f"## {title}\n\n{text}" for title, text in parts.items()]
    return "\n".join([f"# {family.name}\n\n{family.about}\n", *texts])


def what_was_run(family: Family) -> str:
    """What was run of the first, and in what the others differ."""
    first, *others = family.members
    of_others = [
        ", ".join(f"{key}: {value}" for key, value in each.options.items() if value != first.options.get(key))
        for each in others
    ]
    links = [", ".join(f"[{what}]({link})" for what, link in each.rows.items()) for each in others]
    rows = [[f"`{each.name}`", *said] for each, *said in zip(others, of_others, links, strict=True)]
    beside = first.markdown.titled("The others differ in:", ["Experiment", "Options", "Rows"], rows) if rows else ""
    made = documents.provenance(first.provenance)
    elsewhere = {each.name: text for each in others if (text := documents.provenance(each.provenance)) != made}
    apart = [f"`{name}`:\n\n{text}" for name, text in elsewhere.items()]
    return "\n".join(filter(None, [documents.what_was_run(first), beside, *apart]))


def loss_table(family: Family, dataset: str, metric: str) -> pd.DataFrame:
    """A loss on a data set, in print, as loss tables have it, with experiments in the place of data sets."""
    tables = []
    for _, _, each in family.by_setting:
        of = each.tables[metric]
        tables.append(of[of["dataset"] == dataset].assign(dataset=each.name))
    table = pd.concat(tables, ignore_index=True)
    times, _ = family.in_print(dataset)
    return table.assign(**{name: times * table[name] for name in ("mean", "standard_error", "ci_low", "ci_high")})


def table(family: Family, dataset: str, metric: str) -> str:
    """A loss on a data set in Markdown: algorithms × (clicks, η)."""
    of, headline = loss_table(family, dataset, metric), family.members[0].plan.selections[0]
    columns = {
        each.name: f"η = {sharpness:g}" + (", clicks" if clicks != CERTAIN else "")
        for clicks, sharpness, each in family.by_setting
    }
    first = family.members[0].markdown
    times, unit = family.in_print(dataset)
    digits = {"form": ".2f", "error": " ± {:.2f}"} if times > 1 else {}
    to = replace(first, names=replace(first.names, datasets=columns), **digits)
    said = (
        f"{family.names.loss(metric, [dataset])} on {family.names.dataset(dataset)}{unit}, hyper-parameters chosen by "
        f"{SCORES[headline]}: mean ± standard error over {printed.seeds_in_print(of, to)}. "
        f"{printed.meaning_of_bold(of, to)}"
    )
    return to.titled(said, *printed.loss_columns(of, headline, to))


def picture(family: Family) -> str:
    """The figure, as a page has it."""
    return f'<img src="{family.link}" alt="Loss and the sharpness of π0" width="800">'


def caption(family: Family) -> str:
    """What the figure shows."""
    plan, names = family.members[0].plan, family.names
    clicked = "".join(
        f" In the lower row rewards are clicks, with probability {right:g} for the right action, {wrong:g} for another."
        for right, wrong in dict.fromkeys(rates for rates, _, _ in family.by_setting if rates != CERTAIN)
    )
    return (
        f"{names.loss(LOSS, family.datasets)}{family.units} against η, by which π0's scores are multiplied: the "
        f"larger, the rarer are actions that π0 thinks less of. Points are means over {plan.seeds_in_words} with 95 % "
        f"intervals; hyper-parameters are chosen by {SCORES[plan.selections[0]]}.{clicked} Lines without marks are "
        f"π0 (grey) and full supervision, {names.word('supervised', family.datasets)} (black): expected losses are "
        "dotted, the greedy loss, that of the most probable actions, is solid. Both axes are logarithmic."
    )


def loss_by_sharpness(family: Family) -> pd.DataFrame:
    """Losses in print by setting: (dataset, clicks, sharpness, algorithm, loss, mean, low, high).

    The expected loss of each algorithm that is drawn, of π0 and of the skyline, and the skyline's greedy loss.
    """
    rows = []
    for clicks, sharpness, each in family.by_setting:
        for name, loss in [*((name, LOSS) for name in family.drawn), *LINES]:
            of = each.tables[loss].query("algorithm == @name and selection == @each.plan.selections[0]")
            for row in of.itertuples():
                key = {
                    "dataset": row.dataset,
                    "clicks": clicks,
                    "sharpness": sharpness,
                    "algorithm": name,
                    "loss": loss,
                }
                times, _ = family.in_print(row.dataset)
                interval = {"mean": row.mean, "low": row.ci_low, "high": row.ci_high}
                rows.append({**key, **{name: times * value for name, value in interval.items()}})
    return pd.DataFrame(rows)


def loss_against_sharpness(family: Family) -> Figure:
    """Expected loss against η: means with 95 % intervals, a panel for each data set (across) and click rates (down).

    Both axes are logarithmic, that of losses shared by the panels of a data set.
    """
    frame, names = loss_by_sharpness(family), family.names
    datasets, rewards = family.datasets, list(dict.fromkeys(frame["clicks"]))
    drawn = [name for name in family.drawn if name in set(frame["algorithm"])]
    across, down = len(datasets), len(rewards)
    figure = Figure(figsize=(max(WIDTH, 0.9 + 1.7 * across), 2.0 + 2.4 * down))
    panels = figure.subplots(down, across, sharex=True, sharey="col", squeeze=False)
    for (row, clicks), (column, dataset) in product(enumerate(rewards), enumerate(datasets)):
        axes = panels[row, column]
        of = frame[(frame["clicks"] == clicks) & (frame["dataset"] == dataset)]
        for place, name in enumerate(drawn):
            drawing.along_sharpness(axes, of[of["algorithm"] == name], names.look(name), place / len(drawn) - 0.5)
        for key in LINES:
            level, look = of[(of["algorithm"] == key[0]) & (of["loss"] == key[1])], drawing.LINES[key]
            axes.plot(level["sharpness"], level["mean"], look.line, color=look.colour, linewidth=1.2)
        drawing.loss_axis(axes)
        axes.set_title(names.dataset(dataset) if row == 0 else "")
    for axes, clicks in zip(panels[:, 0], rewards, strict=True) if down > 1 else ():
        axes.set_ylabel("without noise" if clicks == CERTAIN else f"clicks: {clicks[0]:g} and {clicks[1]:g}")
    for axes in panels[-1]:
        axes.set_xlabel("η")
    sharpness = sorted(set(frame["sharpness"]))
    panels[0, 0].set_xscale("log", base=2)
    panels[0, 0].set_xticks(sharpness, [f"{each:g}" for each in sharpness])
    panels[0, 0].minorticks_off()
    figure.supylabel(f"{names.title(LOSS, datasets)}{family.units}".rstrip(","))
    looks = [names.look(name) for name in drawn]
    handles = [Line2D([], [], color=k.colour, marker=k.marker, label=k.label) for k in looks]
    handles += drawing.level_handles(LINES)
    return drawing.titled(figure, "Loss and the sharpness of π0", handles, columns=3 if across > 2 else 2)
