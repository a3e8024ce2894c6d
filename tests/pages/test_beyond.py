"""Numbers on the pages beyond, validity and trials, and of their experiments in README.md, come from docs/results."""

from itertools import product

import numpy as np
import pytest
from fixtures.page_numbers import (
    PAPER,
    SCENE_AND_YEAST,
    SETS,
    check_claims,
    ends,
    is_level,
    mean_and_error,
    means_and_errors,
    numbers,
    p_below,
    rounded,
)
from pages.published import STARTS, gain, losses, metrics, share_closed
from pages.result_tables import ANCHORED, BASELINES, UNSEEN

from drcrm.paper.reports.result_tables import holm

BEYOND, VALIDITY, TRIALS = (f"docs/paper/{name}.md" for name in ("beyond", "validity", "trials"))
COMPETITORS = ["cips", "poem", "akl_crm", "kl_dro", *BASELINES, *ANCHORED]
SYNTHETIC = ["made_small", "made_many", "made_sparse"]
SCENE, YEAST = SCENE_AND_YEAST


def loss(data: str, algorithm: str, selection: str = "dr_bound", metric: str = "expected_loss"):
    """Return losses in `beyond`, or from the start of a name ALGORITHM_from_START."""
    name, _, start = algorithm.partition("_from_")
    return losses(STARTS[start] if start else "beyond", data, name, selection, metric)


def closed(name: str, sets=SCENE_AND_YEAST, **options) -> list[int]:
    """Return the shares that an algorithm closes on each set."""
    name, _, start = name.partition("_from_")
    options |= {"experiment": STARTS[start]} if start else {}
    return [share_closed(data, name, **options) for data in sets]


def best_of(names: list[str]) -> list[int]:
    return [max(values) for values in zip(*map(closed, names), strict=True)]


def interleaved(first: list, second: list) -> list:
    return [value for pair in zip(first, second, strict=True) for value in pair]


def losses_at_one() -> list[float]:
    """Return the losses at Δ = 1, and the best of the paper's algorithms at Δ = 256."""
    once = [losses("beyond", data, "kl_dro_dr", count=1)[:10].mean() for data in SCENE_AND_YEAST]
    rows = metrics("sample", 256).query("selection == 'clipped_snips'")
    rows = rows[rows["algorithm"].isin(PAPER)]
    best = rows.groupby(["dataset", "algorithm"])["expected_loss"].mean().groupby("dataset").min()
    return rounded([*once, *best[SCENE_AND_YEAST]], 3)


def test_sentences_on_the_ingredients():
    ball, at_start, from_zero = closed("kl_dro_dr"), *(closed(f"kl_dro_dr{n}", seeds=10) for n in ("", "_from_zero"))
    start = interleaved([a - b for a, b in zip(at_start, from_zero, strict=True)], at_start)
    weighted = [*best_of(["poem", "akl_crm", "kl_dro"]), *best_of([*BASELINES, *ANCHORED])]
    poem = interleaved(closed("norm_poem", seeds=10), closed("norm_poem_from_model", seeds=10))
    at_32 = rounded((losses("beyond", data, "kl_dro_dr", count=32).mean() for data in SCENE_AND_YEAST), 3)
    large = {
        name: [gain(d, "kl_dro_dr", name, "beyond_large") for d in SETS[2:]] for name in ("kl_dro_dr_support", "dr")
    }
    check_claims(
        BEYOND,
        {
            r"\(`kl_dro_dr`\) closes # % of this gap on Scene and # % on Yeast": ball,
            r"\(`kl_dro_dr_map`\) it closes # and #": closed("kl_dro_dr_map"),
            r"importance-weighted costs\) closes # and # %\. The best baseline of each set closes # and # %": weighted,
            "`kl_dro_dr` loses # of its # points on Scene and # of # on Yeast": start,
            "lifts Norm-POEM from # to # and from # to #": poem,
            "label vectors, lower the loss by # ± # on Scene and # ± # on Yeast": means_and_errors(
                *(gain(data, "kl_dro_dr", "kl_dro_dr_support") for data in SCENE_AND_YEAST)
            ),
            r"A feature map\*\* lowers it by # ± # on Scene": mean_and_error(gain(SCENE, "kl_dro_dr_map", "kl_dro_dr")),
            "DR and DM, which have no ball, are # ± # and # ± # better on Scene and level on Yeast": means_and_errors(
                *(gain(SCENE, name, "kl_dro_dr") for name in ("dr", "dm"))
            ),
            "has # and # at Δ = 1.{,60} has # and # at Δ = 256": losses_at_one(),
            "our last point, `kl_dro_dr` has # and #": at_32,
            "by clipped SNIPS, ours has # ± # and # ± #": means_and_errors(
                *(loss(data, "norm_poem", "clipped_snips") for data in SCENE_AND_YEAST)
            ),
            r"Context effects gain # ± # and # ± #, the ball # ± # and # ± #": means_and_errors(
                *large["kl_dro_dr_support"], *large["dr"]
            ),
        },
    )
    gaps = [
        loss(data, "skyline", metric="greedy_loss") - loss(data, "kl_dro_dr_map", metric="greedy_loss")
        for data in SCENE_AND_YEAST
    ]
    stated = numbers(BEYOND, r"in greedy loss by # ± #\. On Yeast its greedy loss is # ± # higher")
    assert stated == pytest.approx(means_and_errors(gaps[0], -gaps[1]), abs=6e-4)
    level = [(YEAST, name) for name in ("dr", "dm", "kl_dro_dr_map", "kl_dro_dr_auto")]
    assert all(is_level(gain(data, name, "kl_dro_dr")) for data, name in [*level, (SCENE, "kl_dro_dr_auto")])
    readme = {
        r"closes # % of this gap on Scene and # % on Yeast": ball,
        "With a feature map, it closes # % on Yeast and # % on Scene": closed("kl_dro_dr_map")[::-1],
        r"TMC2007-500, 5 seeds\) it closes # and # %": closed(
            "kl_dro_dr", SETS[2:], experiment="beyond_large", seeds=5
        ),
        "closes # percentage points less on Scene, but only # less on Yeast": start[::2],
    }
    check_claims("README.md", readme)


def test_most_probable_actions_of_the_logging_policy_lose_more_than_kl_dro_with_dr():
    for data in SCENE_AND_YEAST:
        assert loss(data, "kl_dro_dr", metric="greedy_loss").mean() < loss(data, "logging", metric="greedy_loss").mean()


def test_every_competitor_is_behind():
    """From its usual start, and from the tilted start by the selection that suits it best."""
    largest_p, n = 2e-7, *numbers(BEYOND, r"Holm over # comparisons")
    tilted = [f"{name}_from_model" for name in set(metrics("starts_model")["algorithm"]) & {*COMPETITORS}]
    *means, largest_tilted = numbers(BEYOND, r"Norm-POEM is nearest: # and # \(10 seeds, p ≤ #\)")
    for data, mean in zip(SCENE_AND_YEAST, means, strict=True):
        p = [p_below(-gain(data, "kl_dro_dr", name)) for name in COMPETITORS]
        assert len(p) == n
        assert holm(p).max() <= largest_p
        best = {}
        for name in tilted:
            by_score = [loss(data, name, score) for score in metrics("beyond")["selection"].dropna().unique()]
            best[name] = min((values for values in by_score if len(values)), key=lambda values: values.mean())
        assert min(best, key=lambda name: best[name].mean()) == "norm_poem_from_model"
        assert mean == round(best["norm_poem_from_model"].mean(), 3)
        ball = loss(data, "kl_dro_dr")
        assert max(p_below(ball[values.index] - values) for values in best.values()) <= largest_tilted + 5e-5


def test_sentences_on_the_selection_criterion():
    shares = [*closed("kl_dro_dr", selection="clipped_snips"), *closed("kl_dro_dr")]
    check_claims(VALIDITY, {"by clipped SNIPS, `kl_dro_dr` closes # and # % .{,40}, by `dr_bound` # and # %": shares})


def test_sentences_on_unseen_sets():
    of = lambda data, name, selection="dr_bound": losses(UNSEEN[data], data, name, selection)  # noqa: E731
    gain_of = lambda data, name, reference: of(data, reference) - of(data, name)  # noqa: E731
    adjusted = {}
    for data in UNSEEN:
        differences = [-gain_of(data, "kl_dro_dr", name) for name in COMPETITORS]
        assert all(values.mean() < 0 for values in differences)
        p = holm([p_below(values) for values in differences])
        adjusted |= {(data, name): value for name, value in zip(COMPETITORS, p, strict=True)}
        assert data == "unseen_many" or is_level(gain_of(data, "kl_dro_dr", "dr"))
    assert [key for key, p in adjusted.items() if p >= 0.05] == [("unseen_few", "norm_poem")]
    plain, logging = of("unseen_certain", "kl_dro_dr_plain"), of("unseen_certain", "logging")
    assert (plain > logging).sum() == 1
    safe = [of(data, "kl_dro_dr_safe", "improvement_bound") > of(data, "logging") + 1e-9 for data in UNSEEN]
    assert not any(above.any() for above in safe)
    effects = [gain_of(data, "kl_dro_dr", "kl_dro_dr_support") for data in ("unseen_certain", "unseen_few")]
    certain = [*rounded([plain.max(), logging.mean()], 3), *mean_and_error(of("unseen_certain", "kl_dro_dr"))]
    for data in SYNTHETIC:
        without_ball = gain(data, "kl_dro_dr", "dr", "made")
        assert without_ball.mean() > 0
        assert not is_level(without_ball)
        assert is_level(gain(data, "kl_dro_dr", "dm", "made")) == (data != "made_many")
    check_claims(
        VALIDITY,
        {
            r"\(p = #, Holm over # comparisons\)": [round(adjusted["unseen_few", "norm_poem"], 3), len(COMPETITORS)],
            r"many labels\.\*\* DR without it has # ± # more wrong labels there": mean_and_error(
                gain_of("unseen_many", "kl_dro_dr", "dr")
            ),
            r"one of 5 fits has a loss of #\. π0 has #, and `kl_dro_dr` has # ± #": certain,
            r"Context effects\*\* gain # ± # if π0 is near-deterministic, # ± # with few": means_and_errors(*effects),
            "In the # logs, it never selected a policy worse than π0": [sum(map(len, safe))],
            r"`kl_dro_dr` close #, # and # % of the gap\*\*, those of the best baseline #, # and # %": [
                max(share_closed(data, name, "made", seeds=10) for name in names)
                for names in (["kl_dro_dr"], BASELINES)
                for data in SYNTHETIC
            ],
        },
    )


TESTED = ["cips", "kl_dro", "snips", "kl_dro_snips", "dm", "dr", *BASELINES]  # in the ablation, next to kl_dro_dr


def adjusted_p(data: str) -> list[float]:
    """Return Holm's p that `kl_dro_dr` loses less than each baseline from a start other than its usual one."""
    ball, p = loss(data, "kl_dro_dr"), {}
    for name, start in product(TESTED, STARTS):
        values = loss(data, f"{name}_from_{start}")
        if not values.equals(loss(data, name)[values.index]):
            p[f"{name}_from_{start}"] = p_below(ball[values.index] - values)
    assert len(p) == 24
    adjusted = zip(p, holm(list(p.values())), strict=True)
    return [value for name, value in adjusted if name.partition("_from_")[0] in BASELINES]


def test_sentences_on_the_ablation():
    [most] = numbers(TRIALS, "p is at most # with Holm's adjustment")
    assert max(max(adjusted_p(data)) for data in SCENE_AND_YEAST) == pytest.approx(most, abs=5e-5)

    def mean(name: str) -> np.ndarray:
        return np.array([loss(data, name)[:10].mean() for data in SCENE_AND_YEAST])

    zero, logging, model = (mean(f"kl_dro_dr{start}") for start in ("_from_zero", "_from_logging", ""))
    radii = losses("divergences", YEAST, "kl_dro_dr", metric="hyperparameter")
    check_claims(
        TRIALS,
        {
            "gains # on Scene and # on Yeast; the tilt gains another # and #": rounded(
                [*(zero - logging), *(logging - model)], 3
            ),
            "Norm-POEM, has a loss # higher on Scene and # higher on Yeast": rounded(
                mean("norm_poem_from_model") - model, 3
            ),
            "SNIPS, DM and DR gain # to # in all": ends(
                (mean(f"{name}_from_zero")[0] - mean(name)[0] for name in ("snips", "dm", "dr")), 2
            ),
            "`kl_dro_dr` has # from Θ = 0 already": [round(zero[1], 3)],
            "# of # seeds on Yeast select #, the end of the grid, # select #": [
                radii.eq(0.1).sum(),
                len(radii),
                radii.max(),
                radii.eq(0.0316).sum(),
                0.0316,
            ],
        },
    )
