"""Claims on docs/user-guide/environment-shift.md come from docs/results, and from an identity."""

import numpy as np
from page_numbers import check_claims, ends, rounded
from pages.published import losses, study
from pages.shift_tables import EFFICIENCY_BOUND, LEARNED, RADII, SHIFTED_SETS, TESTS, rows_of

PAGE = "docs/user-guide/environment-shift.md"


def test_sentences_on_learned_policies():
    for n, published in LEARNED.items():
        ours = rows_of("learning", n, "known", "dr")["value"].to_numpy()
        assert (ours >= np.max([*published.values()], axis=0)).all()
    rows = study("shift_accuracy").query("part == 'learning' and n == 5000 and estimate == 'dr'").set_index("radius")
    robust, plain = rows.loc[RADII[-1]], rows.loc[rows.index.min()]
    losses_and_gains = [plain["mean"], plain["mean"] - robust["mean"], robust["at_largest"] - plain["at_largest"]]
    claim = "lowers the mean reward from # by #, and raises the robust reward by #"
    check_claims(PAGE, {claim: rounded(losses_and_gains, 3)})
    assert (rows["logs"] == 30).all()


def test_sentences_on_estimates():
    """By a one-sided test at 5 %."""
    assert study("shift_accuracy")["missing"].sum() == 0
    rows = rows_of("evaluation", 20_000, "known", "dr")
    excess = 1e5 * rows["square"].to_numpy() - 1.3 * np.array(EFFICIENCY_BOUND)
    assert (excess < 1.645e5 * rows["square_error"].to_numpy()).all()
    squares, errors = (1e5 * rows[name].to_numpy() / EFFICIENCY_BOUND for name in ("square", "square_error"))
    claim = "mean squared error is # to # times the efficiency bound, ± #"
    check_claims(PAGE, {claim: [*rounded([squares.min(), squares.max()], 2), round(errors.max(), 2)]})


def test_sentences_on_the_coverage_of_certificates_and_of_the_breakeven():
    rows = study("shift_coverage")
    assert (rows["logs"] == 500).all()
    assert set(rows["n"]) == {2000, 10_000}
    assert set(rows["quantity"]) == {"cost", "difference", "breakeven"}
    assert rows["coverage"].min() >= 0.93
    refused = np.sort(rows["refused"])
    check_claims(
        PAGE,
        {
            "at least # % have a right one, in each setting of # logs": [round(100 * rows["coverage"].min(), 1), 500],
            "In one setting, # % of the logs get none; in the others, at most # %": [
                round(100 * refused[-1]),
                round(100 * refused[-2], 1),
            ],
        },
    )


def test_sentences_on_shifted_test_sets():
    gaps = {
        (data, test): (losses(test, data, "shift_dr") - losses(test, data, "kl_dro_dr")).mean()
        for data in SHIFTED_SETS
        for test in TESTS
    }
    labels = [gap for (data, _), gap in gaps.items() if SHIFTED_SETS[data][1] == 1]
    single = [gap for (data, _), gap in gaps.items() if SHIFTED_SETS[data][1] == 100]
    claims = {
        "differ by at most # points": [round(100 * np.abs(single).max(), 1)],
        "`shift_dr` has # to # more wrong labels": ends(labels, 2),
        "Mean losses over # seeds": [len(losses(TESTS[0], "digits", "dr"))],
    }
    check_claims(PAGE, claims)
    for test in TESTS:
        for data in SHIFTED_SETS:
            assert losses(TESTS[0], data, "logging").mean() <= losses(test, data, "logging").mean()
