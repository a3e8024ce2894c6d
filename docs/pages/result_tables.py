"""Tables of the hand-written pages, made from published results. A block `<!-- table NAME -->` has the table NAME."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd
from cells import joined, number

from pages import learner_tables
from pages.published import STARTS, losses, metrics, share_closed, study
from pages.reference_pages import format_table

SCENE_AND_YEAST = ["scene", "yeast"]
UNSEEN = {"unseen_few": "unseen", "unseen_many": "unseen", "unseen_certain": "unseen_sharp"}
ETAS = {"¼": "sharpness_soft", "1": "sharpness", "4": "sharpness_sharp", "16": "sharpness_sharper"}
SHIFTED_SETS = {  # label, factor of the loss, and digits
    "digits": ("Digits, labels", 1, 3),
    "scene": ("Scene, labels", 1, 3),
    "digits_single": ("Digits, %", 100, 1),
    "satimage": ("Satimage, %", 100, 1),
    "pendigits": ("Pendigits, %", 100, 1),
}
TESTS = ("environment_shift_today", "environment_shift")
SHARPNESS_SETS = ["scene", "yeast", "satimage", "pendigits"]
ANCHORED = ["log_smoothing_anchored", "implicit_exploration_anchored", "exponential_smoothing_anchored"]
BASELINES = ["norm_poem", *(name.removesuffix("_anchored") for name in ANCHORED), "log_sum_exp", "weighted_likelihood"]


def rows_of(lines: Mapping[str, Any], columns: Iterable[str], cell: Callable[[str, Any], str]) -> list[list[str]]:
    """Return a row of texts for each line: its label, then the cell of each column and the line."""
    columns = list(columns)
    return [[label, *(cell(column, line) for column in columns)] for label, line in lines.items()]


def beyond_gap() -> str:
    lines = {
        "with a feature map (`kl_dro_dr_map`)": ("kl_dro_dr_map", 20, "beyond"),
        "KL ball on DR, tilted start, support and context effects (`kl_dro_dr`)": ("kl_dro_dr", 20, "beyond"),
        "without context effects (`kl_dro_dr_support`)": ("kl_dro_dr_support", 20, "beyond"),
        "also without support (`kl_dro_dr_plain`)": ("kl_dro_dr_plain", 20, "beyond"),
        "without the ball: DR": ("dr", 20, "beyond"),
        "cost model only: DM": ("dm", 20, "beyond"),
        "baseline from the tilted start: Norm-POEM": ("norm_poem", 10, "starts_model"),
        "`kl_dro_dr` from π0": ("kl_dro_dr", 10, "starts_logging"),
        "`kl_dro_dr` from Θ = 0": ("kl_dro_dr", 10, "starts"),
        "without the ball, from Θ = 0: DR": ("dr", 10, "starts"),
        "nothing learned: π0's most probable actions": ("logging", 20, "beyond"),
    }

    def cell(data: str, line: tuple[str, int, str]) -> str:
        name, seeds, experiment = line
        return number(share_closed(data, name, experiment, seeds=seeds), 0)

    return format_table(("gap closed", "Scene", "Yeast"), rows_of(lines, SCENE_AND_YEAST, cell))


def grid_ends() -> str:
    """Return how many seeds of `beyond` select the first or the last value of a baseline's grid."""
    rows = metrics("beyond").query("selection == 'dr_bound'").set_index(["algorithm", "dataset"])["hyperparameter"]
    ends = {
        "weighted likelihood": ("weighted_likelihood", "last, β = 100", 100),
        "implicit exploration": ("implicit_exploration", "last, λ = 0.1", 0.1),
        "log-sum-exp": ("log_sum_exp", "last, 10⁵", 1e5),
        "log smoothing": ("log_smoothing", "first, λ = 10⁻⁴", 1e-4),
        "exponential smoothing": ("exponential_smoothing", "first, α = 0.2", 0.2),
        "log smoothing from π0": (ANCHORED[0], "first, penalty 10⁻⁶", 1e-6),
        "implicit exploration from π0": (ANCHORED[1], "first, penalty 10⁻⁶", 1e-6),
        "exponential smoothing from π0": (ANCHORED[2], "first, penalty 10⁻⁶", 1e-6),
    }
    counts = [
        (label, end, *(str((rows[name, data] == value).sum()) for data in SCENE_AND_YEAST))
        for label, (name, end, value) in ends.items()
    ]
    return format_table(("baseline", "end of the grid", "seeds on Scene", "seeds on Yeast"), counts)


def unseen_gap() -> str:
    lines = {
        "KL ball on DR (`kl_dro_dr`)": ["kl_dro_dr"],
        "`kl_dro_dr` with a feature map (`kl_dro_dr_map`)": ["kl_dro_dr_map"],
        "`kl_dro_dr` without context effects (`kl_dro_dr_support`)": ["kl_dro_dr_support"],
        "`kl_dro_dr` without context effects and support (`kl_dro_dr_plain`)": ["kl_dro_dr_plain"],
        "`kl_dro_dr` without the ball: DR": ["dr"],
        "cost model only: DM": ["dm"],
        "best baseline of each set": [*BASELINES, *ANCHORED],
        "nothing learned: π0's most probable actions": ["logging"],
    }

    def best(data: str, names: list[str]) -> str:
        return number(max(share_closed(data, name, UNSEEN[data], seeds=5) for name in names), 0)

    header = ("gap closed, %", "few labels", "many labels", "near-deterministic π0")
    return format_table(header, rows_of(lines, UNSEEN, best))


def ablation() -> str:
    """Return mean losses from Θ = 0, π0 and the tilted π0."""
    lines = {
        "CIPS": "cips",
        "KL-DRO": "kl_dro",
        "SNIPS": "snips",
        "KL-DRO, SNIPS": "kl_dro_snips",
        "DM": "dm",
        "DR": "dr",
        "**KL-DRO, DR**": "kl_dro_dr",
        "Norm-POEM": "norm_poem",
        "log smoothing": "log_smoothing",
        "implicit exploration": "implicit_exploration",
        "exponential smoothing": "exponential_smoothing",
        "log-sum-exp": "log_sum_exp",
        "weighted likelihood": "weighted_likelihood",
    }

    def cell(data: str, name: str) -> str:
        return joined((losses(run, data, name).mean() for run in STARTS.values()), separator=" / ")

    return format_table(("", "Scene", "Yeast"), rows_of(lines, SCENE_AND_YEAST, cell))


def near_deterministic() -> str:
    lines = {
        "π0": ("logging", "expected_loss"),
        "CIPS": ("cips", "expected_loss"),
        "Norm-POEM": ("norm_poem", "expected_loss"),
        "weighted likelihood": ("weighted_likelihood", "expected_loss"),
        "`dm`: cost model only": ("dm", "expected_loss"),
        "`kl_dro_dr_plain`: no support rule": ("kl_dro_dr_plain", "expected_loss"),
        "`kl_dro_dr_support`: support rule": ("kl_dro_dr_support", "expected_loss"),
        "`kl_dro_dr`: support rule and context effects": ("kl_dro_dr", "expected_loss"),
        "`kl_dro_dr_map`: the same with a feature map": ("kl_dro_dr_map", "expected_loss"),
        "full supervision, greedy loss": ("skyline", "greedy_loss"),
    }

    def cell(data: str, line: tuple[str, str]) -> str:
        name, metric = line
        factor, digits = (1, 2) if data in SCENE_AND_YEAST else (100, 1)
        means = [number(factor * losses(run, data, name, metric=metric).mean(), digits) for run in ETAS.values()]
        return " · ".join(dict.fromkeys(means)) if name == "skyline" else " · ".join(means)

    header = ("mean expected loss at η = ¼ · 1 · 4 · 16", "Scene", "Yeast", "satimage, %", "pendigits, %")
    return format_table(header, rows_of(lines, SHARPNESS_SETS, cell))


def shifted_tests() -> str:
    """Return mean expected losses on the test sets of today and on shifted ones."""
    learned = ("snips", "shift_snips", "dr", "kl_dro_dr")
    lines = {"π0": "logging"} | {f"`{name}`": name for name in learned}

    def cell(data: str, name: str) -> str:
        _, factor, digits = SHIFTED_SETS[data]
        return joined((factor * losses(experiment, data, name).mean() for experiment in TESTS), digits)

    header = ("policy", *(label for label, _, _ in SHIFTED_SETS.values()))
    return format_table(header, rows_of(lines, SHIFTED_SETS, cell))


def single_actions() -> str:
    lines = {
        "π0's most probable actions": ("logging", "greedy_loss"),
        "CIPS": ("cips", "expected_loss"),
        "reward-weighted, linear": ("rewarded_rows", "expected_loss"),
        "reward-weighted, boosted trees": ("rewarded_rows_trees", "expected_loss"),
        "importance-weighted, linear": ("importance_weighted", "expected_loss"),
        "importance-weighted, boosted trees": ("importance_weighted_trees", "expected_loss"),
        "`kl_dro_dr_plain`: without support": ("kl_dro_dr_plain", "expected_loss"),
        "`kl_dro_dr`: with support": ("kl_dro_dr", "expected_loss"),
        "`kl_dro_dr_map`: with support and a feature map": ("kl_dro_dr_map", "expected_loss"),
    }
    sets = ("satimage", "pendigits", "letter", "satimage, clicks", "pendigits, clicks", "letter, clicks")

    def cell(column: str, line: tuple[str, str]) -> str:
        data, _, clicks = column.partition(", ")
        runs = (f"single_choice{'_clicks' if clicks else ''}{suffix}" for suffix in ("_soft", "", "_sharp"))
        return joined((100 * losses(run, data, line[0], metric=line[1]).mean() for run in runs), 1)

    return format_table(("error in % at η = ¼ · 1 · 4", *sets), rows_of(lines, sets, cell))


def other_tools() -> str:
    """Return the counted verdicts, with claims that the truth refutes in bold."""
    verdicts = study("verdicts_beside").set_index(["judge", "log", "policy"])
    logs = {"sharp": "near-deterministic", "no overlap, a trap": "no overlap, trap"}
    judges = ("drcrm", "drcrm, imitated", "skdr-eval SNDR", "skdr-eval plain")
    short = {"the log cannot say": "cannot say", "the log is wrong": "log is wrong"}

    def cell(row: pd.Series) -> str:
        parts = []
        for part in row["verdicts"].split("; "):
            count, verdict = part.split(" ", 1)
            is_false = verdict in ("better", "worse", "deploy") and row["wrong"] > 0
            text = f"{count} {short.get(verdict, verdict)}"
            parts.append(f"**{text}**" if is_false else text)
        return ", ".join(parts)

    rows = [
        (
            logs.get(log, log),
            policy,
            number(verdicts.loc[("drcrm", log, policy), "true gain"], sign="+"),
            *(cell(verdicts.loc[(judge, log, policy)]) for judge in judges),
        )
        for log, policy in verdicts.loc["drcrm"].index
    ]
    header = ("log", "policy", "true gain", "drcrm", "drcrm, estimated", "skdr-eval", "skdr-eval, plain")
    return format_table(header, rows)


def certified() -> str:
    """Return mean true losses and mean bounds."""
    lines = {
        "CIPS": "cips",
        "POEM": "poem",
        "KL-DRO": "kl_dro",
        "Norm-POEM": "norm_poem",
        "DR": "dr",
        "DM": "dm",
        "KL-DRO with SNIPS": "kl_dro_snips",
        "**KL-DRO with DR**": "kl_dro_dr",
    }
    sets = {"scene": "Scene", "yeast": "Yeast", "rcv1_subset": "RCV1 subset", "tmc2007_500": "TMC2007-500"}

    def cell(data: str, name: str) -> str:
        means = (losses("certified", data, name, metric=metric).mean() for metric in ("expected_loss", "bound"))
        return joined(means, separator=" → ")

    rows = rows_of(lines, sets, cell)
    sizes = (losses("certified", data, "kl_dro_dr", metric="effective_size").mean() for data in sets)
    bounds = metrics("certified").query("selection == 'dr_bound' and algorithm not in ('logging', 'skyline')")
    holds = (bounds["bound"] >= bounds["expected_loss"]).groupby(bounds["dataset"])
    [cases] = set(holds.size())
    rows.append(["effective sample size of KL-DRO with DR", *(number(size, 0) for size in sizes)])
    rows.append([f"bound holds, of {cases} cases", *map(str, holds.sum()[[*sets]])])
    return format_table(("", *sets.values()), rows)


def vowpal_wabbit() -> str:
    """Return VW's cheapest setting with at most 8 passes that reaches drcrm's cost, or its best one, next to drcrm."""
    runs = study("scale")
    cells = []
    for n, label in {10**5: "10⁵", 10**6: "10⁶", 10**7: "10⁷"}.items():
        for kind in ("single", "labels"):
            of_log = runs[(runs["rows"] == n) & (runs["kind"] == kind)]
            drcrm = of_log[of_log["learner"] == "drcrm parquet"].iloc[0]
            vw = of_log[of_log["learner"].str.startswith("vw ") & of_log["passes"].le(8)]
            reaching = vw[vw["greedy"] <= drcrm["greedy"]].sort_values("cpu")
            best = (vw.sort_values("greedy") if reaching.empty else reaching).iloc[0]
            setting = best["learner"].removeprefix("vw ").partition(",")[0]
            digits = 0 if best["cpu"] > 100 and drcrm["cpu"] > 100 else 1
            cells.append(
                (
                    *(label, kind, setting, number(best["passes"], 0), number(best["cpu"], digits)),
                    *(number(best["greedy"], 4), number(drcrm["cpu"], digits), number(drcrm["MB"], 0)),
                    number(drcrm["greedy"], 4),
                )
            )
    vw_header = ("VW setting", "VW passes", "VW CPU s", "VW cost")
    return format_table(("rows", "kind", *vw_header, "drcrm CPU s", "drcrm MB", "drcrm cost"), cells)


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        *(beyond_gap, grid_ends, unseen_gap, ablation, near_deterministic, single_actions),
        *(other_tools, certified, vowpal_wabbit, shifted_tests, learner_tables.learned_scores),
    )
}
