"""Answers on logs, as the commands write them: better, not shown, the log is wrong, and hostile ones."""

from __future__ import annotations

import math
from copy import deepcopy

NEWS = ["politics", "sport", "culture", "business", "travel"]


def estimate(value: float, error: float, wide: float = 1.96) -> dict:
    low, high = value - wide * error, value + wide * error
    return {"value": value, "standard_error": error, "low": low, "high": high}


def candidate(label: str, value: float, dr: float, now: float, error: float, **more) -> dict:
    """A candidate by the DR estimate of its cost; the others lie about it."""
    given = {
        "name": label.lower().replace(", ", "_").replace("-", "_").replace(" ", "_"),
        "label": label,
        "parameter": "radius",
        "value": value,
        "ridge": 0.0,
        "step": 1.0,
        "chosen": False,
        "is_logging": False,
        "estimates": {
            "ips": estimate(dr - 0.4 * error, 1.5 * error),
            "clipped_ips": estimate(dr + 0.6 * error, 1.2 * error),
            "snips": estimate(dr + 0.2 * error, 1.25 * error),
            "dm": {"value": dr - 1.1 * error, "standard_error": None, "low": None, "high": None},
            "dr": estimate(dr, error),
        },
        "certificate": {
            "estimate": "dr",
            "value": dr,
            "bound": dr + 2.6 * error,
            "confidence": 0.95,
            "choices": 11,
        },
        "difference": {
            "value": dr - now,
            "standard_error": 0.8 * error,
            "low": dr - now - 1.6 * error,
            "bound": dr - now + 2.1 * error,
        },
        "effective_size": 812.4,
        "mean_weight": 1.01,
        "unsupported": 0.004,
    }
    return {**given, **more}


def diagnostic(name: str, value, threshold: str, level: str, sentence: str, **more) -> dict:
    given = {"name": name, "value": value, "low": None, "high": None, "threshold": threshold, "level": level}
    return {**given, "sentence": sentence, "source": "", **more}


def bell(bins: int, centre: float, width: float, size: float) -> list[float]:
    return [round(size * math.exp(-(((each - centre) / width) ** 2)), 3) for each in range(bins)]


def better() -> dict:
    """Clicks on news, a log that carries: the learned policy is better, and that is certified."""
    now = -0.0512
    candidates = [
        candidate("π0", 0.0, now, now, 0.0044, is_logging=True, parameter=None, effective_size=2500.0),
        *(candidate("KL-DRO, DR", 10.0**-power, -0.0731 + 0.001 * power, now, 0.0061) for power in (4, 2, 1)),
        candidate("KL-DRO, DR", 0.001, -0.0784, now, 0.0062, chosen=True),
        *(candidate("χ²-DRO, DR", 10.0**-power, -0.0722 + 0.0012 * power, now, 0.006) for power in (3, 2, 1)),
        candidate("KL-DRO, DR", 0.001, -0.0655, now, 0.0031, step=0.5),
        candidate("KL-DRO, DR", 0.001, -0.0702, now, 0.0052, ridge=0.001),
        candidate("CIPS", 0.0, -0.061, now, 0.0085, parameter=None, effective_size=402.0),
    ]
    checks = [
        diagnostic(
            "effective sample size", 0.325, "≥ 0.1 of the rows", "good", "812 of 2 500 rows count.", source="Kish 1965"
        ),
        diagnostic(
            "Pareto k̂ of the weights",
            0.41,
            "≤ 0.7",
            "good",
            "The tail of the weights is light enough for a mean.",
            source="Vehtari et al. 2024",
        ),
        diagnostic(
            "mean weight",
            1.012,
            "1 within its interval",
            "good",
            "Weights average to one, as they should.",
            low=0.971,
            high=1.053,
        ),
        diagnostic(
            "mass without support",
            0.004,
            "≤ 0.01",
            "good",
            "The policy stays where the log has been.",
            source="section 11",
        ),
        diagnostic("largest share of one row", 0.017, "≤ 0.05", "good", "No row carries the estimate alone."),
        diagnostic(
            "sensitivity to the clip", 0.031, "≤ 0.1", "good", "Clipping at 10 or 100 changes the estimate by 3 %."
        ),
        diagnostic(
            "propensity audit, arithmetic",
            1.004,
            "1 within its interval",
            "good",
            "For every action the inverse propensities sum to the number of rows.",
            low=0.98,
            high=1.03,
            source="Li et al. 2015",
        ),
        diagnostic(
            "R² of the cost model",
            0.018,
            "> 0",
            "caution",
            "The cost model explains 2 % of the variance out of fold: DR is hardly better than IPS here.",
        ),
        diagnostic("drift", 0.21, "p ≥ 0.01", "good", "The first and the last part of the log agree."),
    ]
    return {
        "command": "learn",
        "version": "0.1.0",
        "log": {
            "name": "clicks_2024-05.csv",
            "format": "csv",
            "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "rows": 10000,
            "training": 7500,
            "heldout": 2500,
            "contexts": 9012,
            "features": 24,
            "kind": "one of 5 actions",
            "actions": NEWS,
            "skipped": {"no propensity": 3},
            "imputed": {"age": 1200, "price": 1},
            "propensities": "logged",
            "split": "random 25 %",
        },
        "confidence": 0.95,
        "choices": 11,
        "unit": "cost",
        "reward": True,
        "logging": estimate(now, 0.0044),
        "candidates": candidates,
        "diagnostics": checks,
        "weights": {
            "quantiles": {"0.5": 0.62, "0.9": 2.1, "0.99": 6.0, "1": 14.2},
            "histogram": {
                "edges": [-3 + 0.25 * each for each in range(18)],
                "rows": bell(17, 11.5, 3, 480),
                "share": bell(17, 13.4, 2, 0.3),
            },
        },
        "overlap": {
            "edges": [0.05 * each for each in range(21)],
            "logged": bell(20, 5, 4, 260),
            "policy": [left + right for left, right in zip(bell(20, 3, 3, 200), bell(20, 15, 3, 150), strict=True)],
        },
        "calibration": [
            {
                "decile": each,
                "rows": 250,
                "propensity": 0.04 * 1.3**each,
                "model": 0.04 * 1.3**each * (1 + 0.05 * (-1) ** each),
            }
            for each in range(1, 11)
        ],
        "slices": [
            {
                "slice": str(each),
                "rows": 2500 // each // 2,
                "effective_size": 800 / each / 2,
                "logging": now + 0.006 * each,
                "policy": -0.081 + 0.009 * each,
                "low": -0.081 - 0.004 * each,
                "high": -0.081 + 0.022 * each,
            }
            for each in (1, 2, 3)
        ],
        "actions": [
            {"action": action, "rows": rows, "logging": now_share, "policy": share, "unsupported": 0.001, "cost": cost}
            for action, rows, now_share, share, cost in zip(
                NEWS,
                (3950, 2520, 1480, 1210, 840),
                (0.395, 0.252, 0.148, 0.121, 0.084),
                (0.21, 0.36, 0.11, 0.19, 0.13),
                (-0.044, -0.067, -0.041, -0.058, -0.049),
                strict=True,
            )
        ],
        "largest_rows": [
            {"row": row, "weight": weight, "cost": cost, "share": weight / 830}
            for row, weight, cost in (
                (8812, 14.2, -1.0),
                (172, 12.9, -0.0),
                (9407, 11.3, -1.0),
                (5551, 9.8, -0.0),
                (43, 9.1, -1.0),
            )
        ],
        "verdict": {
            "verdict": "better",
            "sentence": "The learned policy (KL-DRO, DR, radius 0.001) earns 0.0784 a decision where 0.0512 is earned "
            "now: "
            "0.0272 more, and with probability 0.95 at least 0.0142 more.",
            "changes": ["Nothing fails. A test on new traffic would show it directly: some 3 100 decisions each."],
        },
        "made": {
            "mapping": {
                "action": "item",
                "propensity": "p",
                "reward": "click",
                "features": {"numeric": ["age", "price"], "categorical": ["city", "device"]},
                "slice": "position",
            },
            "algorithms": ["kl_dro_dr", "chi2_dro_dr", "cips"],
        },
    }


def not_shown() -> dict:
    """A file of costs with few rows: what runs now stays."""
    now = 12.4
    given = deepcopy(better())
    candidates = [
        candidate("π0", 0.0, now, now, 0.52, is_logging=True, chosen=True, parameter=None, effective_size=75.0),
        candidate(
            "KL-DRO, DR",
            0.01,
            11.7,
            now,
            1.1,
            effective_size=31.0,
            certificate={"refused": "mean weight 0.61 ± 0.12 is below 1"},
        ),
        candidate("KL-DRO, DR", 0.1, 12.1, now, 0.9, effective_size=38.0),
        candidate("CIPS", 0.0, 10.2, now, 9.5, parameter=None, effective_size=4.1),
    ]
    given |= {"reward": False, "candidates": candidates, "logging": estimate(now, 0.52), "choices": 4, "slices": []}
    given["log"] |= {"name": "deliveries.parquet", "format": "parquet", "rows": 300, "training": 225, "heldout": 75}
    given["log"] |= {"contexts": 300, "propensities": "imitated", "skipped": {}}
    for each in candidates:
        if "choices" in each["certificate"]:
            each["certificate"]["choices"] = 4
    for each in given["actions"]:
        each |= {"cost": 12 + 10 * each["cost"]}
    for each in given["largest_rows"]:
        each |= {"cost": 12.5}
    given["diagnostics"][0] |= {
        "value": 0.083,
        "level": "caution",
        "sentence": "6.2 of 75 rows count: little stands between the estimate and chance.",
    }
    given["verdict"] = {
        "verdict": "not shown",
        "sentence": "No candidate is shown to be better than what runs now: the best, KL-DRO, DR, radius 0.01, costs "
        "an "
        "estimated 0.7 less, but the bound of the difference is +1.6. What runs now stays.",
        "changes": [
            "About 1 150 rows held out, 15 times as many, would show a difference of this size.",
            "A certificate needs propensities: the log has none, and they were imitated.",
        ],
    }
    return given


def wrong() -> dict:
    """Propensities that are off by a factor of two."""
    given = deepcopy(better())
    given["diagnostics"][2] |= {
        "value": 0.507,
        "low": 0.48,
        "high": 0.53,
        "level": "fail",
        "sentence": "Weights average to 0.51 and not to 1: propensities are about twice as large as they were.",
    }
    given["diagnostics"][6] |= {
        "value": 0.502,
        "low": 0.49,
        "high": 0.52,
        "level": "fail",
        "sentence": "For 5 of 5 actions the inverse propensities do not sum to the number of rows, worst: sport, 0.47.",
    }
    for each in given["calibration"]:
        each |= {"propensity": 2 * each["propensity"]}
    for each in given["candidates"]:
        if not each["is_logging"]:
            each |= {"certificate": {"refused": "the propensities fail their audit"}}
    given["verdict"] = {
        "verdict": "the log is wrong",
        "sentence": "The logged propensities are not those that the actions were drawn with: their inverses average to "
        "0.50 (0.49 to 0.52) where 1 is expected. No estimate from them can be trusted.",
        "changes": [
            "Log the probability that the action was drawn with, at the time it was drawn.",
            "Check that p and a are of one row.",
        ],
    }
    return given


def diagnosed() -> dict:
    """What ``diagnose`` answers: no candidate, no verdict."""
    given = deepcopy(better())
    given |= {"command": "diagnose", "candidates": [], "choices": None, "verdict": None, "weights": None}
    for each in given["actions"]:
        each |= {"policy": None, "unsupported": None}
    given["overlap"] |= {"policy": None}
    given["log"] |= {"training": None, "heldout": None, "split": None}
    return given


def cannot() -> dict:
    """One policy judged on a log that hardly has its actions."""
    given = deepcopy(better())
    one = candidate(
        "column new_policy", 0.0, -0.09, -0.0512, 0.035, parameter=None, unsupported=0.44, effective_size=7.3
    )
    given |= {"command": "evaluate_policy", "candidates": [one], "choices": 1}
    one["certificate"]["choices"] = 1
    given["diagnostics"][0] |= {"value": 0.003, "level": "fail", "sentence": "7.3 of 2 500 rows count."}
    given["diagnostics"][3] |= {
        "value": 0.44,
        "level": "fail",
        "sentence": "44 % of what the policy does, the log could not have shown.",
    }
    given["actions"][1] |= {"policy": 0.8, "unsupported": 0.44}
    given["verdict"] = {
        "verdict": "the log cannot say",
        "sentence": "44 % of the policy's decisions are ones that the log could not have shown, and 7.3 rows count for "
        "the rest.",
        "changes": ["Explore sport where its propensity is below 0.01: 44 % of the policy's decisions are there."],
    }
    return given


SCRIPT = '</td></table><script>document.title = "hit"</script><img src=x onerror=alert(1)>'
NAMES = [
    "<script>",
    SCRIPT,
    "$\\frac{1}{0}$ $x",
    "مرحبا بالعالم",
    "\u202egnihton\u202c",
    "👩‍👩‍👧‍👦 family",
    "x" * 3000,
    "",
    "a\x1b[31mred\x00\n\rb",
    "\ud800 alone",
    '" onmouseover="alert(1)',
    "{{7*7}} %s {0} &amp; --",
    "日本語" * 40,
]


def hostile() -> dict:
    """Names that are markup, control characters or endless, and numbers that are none."""
    given = deepcopy(better())
    given["log"] |= {
        "name": SCRIPT,
        "actions": NAMES * 80,
        "kind": "one of 1040 actions",
        "skipped": {NAMES[8]: 3, SCRIPT: 1},
        "imputed": {NAMES[8]: 3, SCRIPT: 1},
    }
    given["log"] |= {"digest": "<b>", "format": SCRIPT, "split": SCRIPT, "propensities": SCRIPT}
    bad = [None, math.nan, math.inf, -math.inf, 1e300, -1e-300, 0.5, 3, "7", True, [], {}]
    given["actions"] = [
        {
            "action": f"{each}{number or ''}",
            "rows": number,
            "logging": bad[number % 12],
            "policy": bad[number % 7],
            "unsupported": bad[number % 5],
            "cost": bad[number % 11],
        }
        for number, each in enumerate(NAMES * 80)
    ]
    given["slices"] = [
        {"slice": each, "policy": -0.05, "low": bad[number % 12], "high": 1.0} for number, each in enumerate(NAMES)
    ]
    for each, label in zip(given["candidates"], NAMES, strict=False):
        each |= {"label": label, "parameter": label, "value": 1e-5}
    given["candidates"][5]["estimates"]["dr"] = {"value": 1e9, "low": -1e12, "high": math.inf}
    given["candidates"][6] |= {"certificate": {"refused": SCRIPT}, "estimates": None, "difference": None}
    for each, label in zip(given["diagnostics"], NAMES, strict=False):
        each |= {"name": label, "sentence": label, "threshold": label, "source": label}
    given["diagnostics"] += [diagnostic(SCRIPT, bad[number], "", "odd", "") for number in range(12)]
    given["verdict"] = {"verdict": SCRIPT, "sentence": SCRIPT, "changes": NAMES}
    given["weights"]["quantiles"] = {SCRIPT: 1.0, "1": math.inf}
    given["largest_rows"] = [{"row": SCRIPT, "weight": 1e300, "cost": math.nan, "share": 3}]
    given["made"] = {SCRIPT: NAMES}
    return given


ANSWERS = {
    "better": better,
    "not_shown": not_shown,
    "wrong": wrong,
    "diagnosed": diagnosed,
    "cannot": cannot,
    "hostile": hostile,
}
