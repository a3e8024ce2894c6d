"""Claims on docs/user-guide/environment-shift.md come from docs/results, and from an identity."""

import numpy as np
from page_numbers import check_claims, ends, rounded
from pages.published import losses, study
from pages.result_tables import SHIFTED_SETS, TESTS
from shift_accuracy import EFFICIENCY_BOUND

PAGE = "docs/user-guide/environment-shift.md"


def test_sentences_on_estimates():
    """By a one-sided test at 5 %."""
    assert study("shift_accuracy")["missing"].sum() == 0
    rows = study("shift_accuracy").query("n == 20000 and propensities == 'known' and estimate == 'dr'")
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
    def gaps(reference: str, factor: int) -> np.ndarray:
        """Return mean losses of shift_snips minus those of a reference, for label vectors or for one of K actions."""
        datasets = [data for data, (_, of_set, _) in SHIFTED_SETS.items() if of_set == factor]
        pairs = [(test, data) for data in datasets for test in TESTS]
        return np.array([(losses(*pair, "shift_snips") - losses(*pair, reference)).mean() for pair in pairs])

    assert min(gaps("kl_dro_dr", 1).min(), gaps("kl_dro_dr", 100).min()) > 0
    claims = {
        "`shift_snips` has # to # fewer wrong labels": ends(-gaps("snips", 1), 2),
        "up to # points more errors if one of K actions is right": [round(100 * gaps("snips", 100).max(), 1)],
        "Mean losses over # seeds": [len(losses(TESTS[0], "digits", "dr"))],
    }
    check_claims(PAGE, claims)
    for test in TESTS:
        for data in SHIFTED_SETS:
            assert losses(TESTS[0], data, "logging").mean() <= losses(test, data, "logging").mean()
