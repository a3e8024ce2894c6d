"""Published tables of the studies stay within the limits that pages claim, and sentences have their numbers."""

import re

import numpy as np
import pandas as pd
import pytest
from cells import compare
from certificate_methods import betting_next_to_asymptotic
from estimate_coverage import relative_errors
from fixtures.page_numbers import check_claims, ends, page_text, rounded
from heavy_tails import ALLOWED
from pages.published import study as published
from scipy.stats import binom

INF = np.inf
BLOCKS, BETTING = "block_verdicts", ["betting, one look", "betting, every look"]
LEAST_FALSE = 38.5  # of 500 logs: up to this number a level of 5 % is not refuted
FINITE_SAMPLE = "method in ('empirical_bernstein', 'log_smoothing', 'betting')"
LIGHT = f"not {FINITE_SAMPLE} and tails == 'light' and n == 4000"
SHUFFLED = "kind == 'seven values' and change == 'shuffled'"
NO_GAIN, GAIN = (f"world == '{world}'" for world in ("no gain", "gain"))
LARGEST = "simulator == 'k5000' and estimator in"
LIMITS = [  # study, rows of its table, expression of columns, least and largest value
    ("anytime", "", "logs", 500, 500),
    ("anytime", "", "false * logs", 0, binom.ppf(0.95, 500, 0.05)),
    ("block_level", "", "logs", 500, INF),
    ("block_level", "", "better * logs", 0, LEAST_FALSE),
    ("block_verdicts", "", "logs", 200, 200),
    ("block_verdicts", "", "better * logs", 0, 19.5),
    ("certificate_methods", "", "logs", 50, 50),
    ("coverage", "", "repetitions", 2000, 2000),
    ("coverage", FINITE_SAMPLE, "coverage - confidence", 0, 1),
    ("coverage", LIGHT, "(coverage - confidence) / standard_error", -4, 4),
    ("epsilon_greedy", "", "false", 0, 0.1),
    ("epsilon_greedy", "kind == 'uniform'", "rare", 0, 0),
    ("estimate_coverage", "", "logs", 500, 500),
    ("estimate_coverage", "estimate == 'dm'", "coverage", 0, 0.5),  # its interval does not include the model's error
    ("guardrails", "", "logs", 500, INF),
    ("guardrails", "slack == 0", "better", 0, 34),
    ("guardrails", "slack == 3", "better / logs", 0.75, 1),
    ("heavy_tails", "", "false", 0, ALLOWED),
    ("interval_coverage", "", "logs", 40, 40),
    ("large_action_gain", "", "logs", 12, 12),
    ("large_action_gain", "policy == 'fit'", "gain / gain_error", 3, INF),
    ("large_action_sets", "", "logs", 25, 25),
    ("large_action_sets", "estimator in ('mips', 'cluster_dr')", "coverage", 0, 0.7),
    ("large_action_sets", "estimator in ('ips', 'dr')", "coverage", 0.8, 1),
    ("large_action_sets", f"{LARGEST} ('snips',)", "coverage", 0, 0.7),
    ("large_action_sets_pooled", "", "logs", 25, 25),
    ("large_action_sets_pooled", "estimator == 'dm'", "bias / bias_error", 10, INF),
    ("late_outcomes", "", "learned", 0, 0),
    ("late_outcomes", SHUFFLED, "certified", 0, 0),
    ("late_outcomes", f"not ({SHUFFLED})", "certified", 1, 1),
    ("limits", "", "logs", 300, 300),
    ("limits", "", "wrong", 0, 0),
    ("limits", "", "covered", 0.93, 1),
    ("loop", "", "repetitions", 100, INF),
    ("loop", NO_GAIN, "stopped / repetitions", 0, 0.05),
    ("loop", GAIN, "stopped / repetitions", 0.8, 1),
    ("loop", GAIN, "`then the log cannot say` / stopped", 0, 0.05),
    ("ls_radius", "", "runs", 10, 10),
    ("null_verdicts", "", "logs", 60, INF),
    ("null_verdicts", "", "p_value", 0.01, 1),  # of a one-sided binomial test
    ("ocv", "", "runs", 100, 100),
    ("policy_trees", "", "runs", 100, 100),
    ("pooled_rounds", "", "repetitions", 100, 100),
    ("pooled_rounds", "", "`false better`", 0, 0),
    ("shift_accuracy", "", "missing", 0, 0),
    ("shift_coverage", "", "logs", 500, 500),
    ("shift_coverage", "", "coverage", 0.93, 1),
    ("tree_level", "", "logs", 500, 500),
    ("tree_level", "", "better * logs", 0, LEAST_FALSE),
    ("tree_level", "", "covered", 0.93, 1),
    ("tree_level", "", "leaves * logs", 200, INF),
]


@pytest.mark.parametrize(("study_name", "rows", "expression", "least", "largest"), LIMITS)
def test_a_published_table_is_within_the_limits_of_the_pages(study_name, rows, expression, least, largest):
    table = published(study_name)
    values = (table.query(rows) if rows else table).eval(expression)
    assert len(values)
    assert values.between(least, largest).all(), f"docs/results/{study_name}.csv\n{values}"


def test_tables_have_the_rows_of_their_studies(study):
    coverage, heavy_tails, epsilon_greedy = map(study, ("coverage", "heavy_tails", "epsilon_greedy"))
    assert len(published("coverage")) == len(coverage.settings()) * len(coverage.SIZES) * len(coverage.METHODS)
    laws = len(heavy_tails.LAWS) * len(heavy_tails.SIZES) * len(heavy_tails.BOUNDS) * 4
    assert (len(published("heavy_tails")), len(published("certificate_methods").groupby(["setting", "n"]))) == (
        laws,
        68,
    )
    cells = epsilon_greedy.cells()
    rows = published("epsilon_greedy")[list(cells[0]._fields)].itertuples(index=False, name=None)
    assert list(rows) == [tuple(cell) for cell in cells]
    assert set(published("null_verdicts")["log"]) == set(study("null_verdicts").KINDS)
    assert set(published("estimate_coverage")["kind"]) == {"digits", "satimage", "scene", "shop"}
    kinds = {"clicks", "revenue", "heavy weights", "missing actions", "adaptive", "groups"}
    assert set(published("anytime")["kind"]) == kinds
    assert set(published("shift_coverage")["n"]) == {2000, 10_000}
    assert set(published("shift_coverage")["quantity"]) == {"cost", "difference", "breakeven"}


def test_shares_over_all_logs():
    """False verdicts and certificates of all rows together; most logs get an answer."""
    exploring, late = published("epsilon_greedy"), published("late_outcomes").query("certified == 1")
    assert exploring["false"].mean() <= 0.05
    assert exploring["cannot"] @ exploring["sampled"] <= 0.1 * exploring["sampled"].sum()
    assert published("null_verdicts")["better"].mean() <= 0.01
    assert published("heavy_tails")["false unchecked"].max() > 0.25
    assert published("late_outcomes")["logs"].sum() >= 200
    assert (late[["holds", "difference_holds"]].T @ late["logs"] >= 0.93 * late["logs"].sum()).all()


def test_intervals_of_the_default_cover_and_are_more_accurate():
    rows = published("estimate_coverage")
    coverage = rows.pivot(index=["kind", "policy"], columns="estimate", values="coverage")
    assert coverage["auto"].equals(coverage["dr"])
    assert coverage["dr"].groupby("kind").mean().min() >= 0.93
    errors = relative_errors(rows)
    assert errors["auto"] < errors["clipped_ips"]


def test_sentences_have_the_numbers_of_the_tables():
    limits, loop, radii = published("limits"), published("loop").set_index("world"), published("ls_radius")
    pooled, rails = published("pooled_rounds").set_index("way"), published("guardrails").set_index("slack")
    covered, kept = (ends(100 * values, 0) for values in (limits["covered"], limits["gain"] / limits["best"]))
    ratios, gain, level = betting_next_to_asymptotic(published("certificate_methods")), loop.loc["gain"], "block_level"
    false = {name: (published(name)["better"] * published(name)["logs"]).round().max() for name in (level, BLOCKS)}
    radius = radii.groupby("method")["value"].mean().round(3)
    trees = compare(published("policy_trees"))["difference_in_errors"]
    guide, tables = "docs/user-guide", "docs/paper/published-tables.md"
    claims = {
        f"{guide}/own-logs.md": {r"# logs \(a rare cost\) and # \(revenue\)": [*rails.loc[0, "better"]]},
        f"{guide}/verdict-errors.md": {
            "in # to # % of the logs. The learned policies have # to # % of the": [*covered, *kept]
        },
        f"{guide}/limits.md": {"policies had # to # % of the possible gain": kept},
        f"{guide}/certificates.md": {
            "over the # settings .{,50} is # times as wide, and at least # t": [
                len(ratios),
                *rounded([ratios.mean(), ratios.min()], 2),
            ]
        },
        f"{guide}/loop.md": {
            r"in #\. - \*\*# of # deploy by week 6\*\*": [
                loop.loc["no gain", "usual"],
                *gain[["stopped", "repetitions"]],
            ],
            "# of # second rounds": [*gain[["then the log cannot say", "stopped"]]],
            r"# end in \*better\*, # in \*not shown\*": [*gain[["then better", "then not shown"]]],
            "In # of 100 repetitions": [pooled.loc["pooled", "recognised"]],
            r"In # it said \*better\*": [pooled.loc["pooled", "then better"]],
            "gain # clicks per row over it": [round(pooled.loc["pooled", "gain if better"], 3)],
            r"With `--baseline` it said \*better\* in #, and \*the log cannot say\* in #:": [
                *pooled.loc["baseline", ["then better", "then the log cannot say"]]
            ],
        },
        f"{guide}/blocks.md": {
            r"The largest number of false verdicts in the table is #\.": [false[level]],
            "in at most # of 200 logs; # are consistent": [false[BLOCKS], 19],
        },
        tables: {
            "radius of # for one look and # at every look": [*radius[BETTING]],
            r"logarithmic smoothing, has #\.": [radius["logarithmic smoothing"]],
            "than the published ones, by # to # joint standard errors": ends(trees),
        },
    }
    for page, sentences in claims.items():
        check_claims(page, sentences)


def test_blocks_show_more_of_one_kind_of_log_and_held_out_rows_as_much_of_the_other():
    power = published("block_power").set_index(["log", "validation"])["better"]
    assert power["e-mail", "blocks"] >= power["e-mail", "holdout"] + 15
    assert abs(power["recommender", "blocks"] - power["recommender", "holdout"]) <= 5


def test_betting_is_not_the_default_because_it_is_wider():
    assert betting_next_to_asymptotic(published("certificate_methods")).mean() > 1.15


@pytest.mark.parametrize(("name", "cells"), [("ocv", 12), ("ls_radius", 32), ("policy_trees", 4)])
def test_cells_agree_with_those_of_other_authors(name, cells):
    """Within two joint standard errors, or the largest difference from the published radii that the page names."""
    compared = compare(published(name))
    assert len(compared) == cells
    if name == "ls_radius":
        assert compared["difference"].abs().max() < 0.0135
    elif name == "ocv":
        assert (compared["difference_in_errors"].abs() < 2).all()


def test_selections_and_trees_have_the_order_of_the_page():
    errors = published("ocv").set_index(["setting", "method"])["value"].unstack("method")
    assert errors["SLOPE"].equals(errors["DR"].rename("SLOPE"))
    assert errors.loc["T=-10"].drop("OCV by IPS").idxmin() == "IPS"
    assert published("policy_trees").groupby("setting")["value"].nunique().tolist() == [1, 1]


def test_radii_by_betting_are_narrower_and_seldom_false():
    means, false = (published("ls_radius").groupby("method")[name].mean() for name in ("value", "false"))
    assert (means[BETTING] <= [0.22, 0.25]).all()
    assert means.filter(like="betting").max() < means["logarithmic smoothing"]
    assert (false * 8 / 10)[BETTING].max() <= 27
    assert false["betting, one look"] < false["Student"]


def test_the_page_of_estimators_names_the_intervals_that_fail():
    rows = published("interval_coverage")
    assert rows["simulator"].nunique() == 3
    shares = rows.groupby("estimator")["coverage"].mean()
    [named] = re.findall(r"in less than 90 % of all logs: (.*?)\.", page_text("docs/user-guide/estimators.md"))
    assert set(re.findall(r"`(\w+)`", named)) == set(shares.index[shares < 0.9])


def test_weights_of_clusters_have_small_errors():
    """A cost model of clusters changes only estimates that use it."""
    rows, pooled = (
        published(name).set_index(["simulator", "estimator"])
        for name in ("large_action_sets", "large_action_sets_pooled")
    )
    largest = rows.loc["k5000", "rmse"]
    assert largest[["mips", "cluster_dr"]].max() < largest[["ips", "snips", "dr"]].min() / 2
    assert pooled.loc[("k5000", "dm"), "rmse"] <= largest["dm"] / 1.9
    assert pooled["truth"].equals(rows.loc[pooled.index, "truth"])


def test_fits_of_many_actions_end_at_their_start():
    """The start gains less with more actions; with 5000, the fit gains nothing over it."""
    rows = published("large_action_gain").pivot(index="actions", columns="policy", values=["gain", "gain_error"])
    assert rows["gain", "start"].is_monotonic_decreasing
    fit, start = (
        pd.Series({name: rows.loc[5000, (name, policy)] for name in ("gain", "gain_error")})
        for policy in ("fit", "start")
    )
    assert abs(fit["gain"] - start["gain"]) < 2 * np.hypot(fit["gain_error"], start["gain_error"])
