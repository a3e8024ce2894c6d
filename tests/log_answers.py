"""Answers of the commands, as JSON values: each verdict, ``diagnose``, and hostile names."""

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import Check, Consequence
from drcrm.logs.diagnostics.comparison.verdict import Verdict
from drcrm.logs.diagnostics.comparison.words import Statement
from drcrm.logs.diagnostics.diagnosis import TABLES
from drcrm.logs.diagnostics.units import Units
from drcrm.logs.report.answer import Answer
from drcrm.logs.report.candidate import Candidate

NEWS = ["politics", "sport", "culture", "business", "travel"]


def estimate(value: float, error: float) -> dict:
    return {"value": value, "standard_error": error, "low": value - 1.96 * error, "high": value + 1.96 * error}


def candidate(label: str, value: float, dr: float, logging: float, error: float, **changes) -> dict:
    """Return a candidate with this DR estimate of its cost; its other estimates are close to it."""
    defaults = {
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
            "value": dr - logging,
            "standard_error": 0.8 * error,
            "low": dr - logging - 1.6 * error,
            "bound": dr - logging + 2.1 * error,
        },
        "effective_size": 812.4,
        "mean_weight": 1.01,
        "unsupported": 0.004,
    }
    return {**defaults, **changes}


def diagnostic(name: str, value, threshold: str, level: str, sentence: str, **changes) -> dict:
    required = {"name": name, "value": value, "threshold": threshold, "level": level, "sentence": sentence}
    return {**required, "low": None, "high": None, "source": "", **changes}


def bell(bins: int, centre: float, width: float, size: float) -> list[float]:
    return [round(size * math.exp(-(((index - centre) / width) ** 2)), 3) for index in range(bins)]


def better() -> dict:
    """Clicks on news: the learned policy is certified to be better."""
    logging = -0.0512
    candidates = [
        candidate("π0", 0.0, logging, logging, 0.0044, is_logging=True, parameter=None, effective_size=2500.0),
        *(candidate("KL-DRO, DR", 10.0**-power, -0.0731 + 0.001 * power, logging, 0.0061) for power in (4, 2, 1)),
        candidate("KL-DRO, DR", 0.001, -0.0784, logging, 0.0062, chosen=True),
        *(candidate("χ²-DRO, DR", 10.0**-power, -0.0722 + 0.0012 * power, logging, 0.006) for power in (3, 2, 1)),
        candidate("KL-DRO, DR", 0.001, -0.0655, logging, 0.0031, step=0.5),
        candidate("KL-DRO, DR", 0.001, -0.0702, logging, 0.0052, ridge=0.001),
        candidate("CIPS", 0.0, -0.061, logging, 0.0085, parameter=None, effective_size=402.0),
    ]
    checks = [
        diagnostic(
            "effective sample size",
            0.325,
            "≥ 0.1 of the rows",
            "good",
            "The weights are worth 812 of 2 500 rows.",
            source="Kish 1965",
        ),
        diagnostic(
            "mean weight",
            1.012,
            "1 in its interval",
            "good",
            "The mean weight is 1, as expected.",
            low=0.971,
            high=1.053,
        ),
        diagnostic(
            "unsupported actions",
            0.004,
            "≤ 0.01",
            "good",
            "The log contains nearly all actions of the policy.",
            source="section 11",
        ),
        diagnostic("largest share of one row", 0.017, "≤ 0.05", "good", "No single row determines the estimate."),
        diagnostic(
            "sensitivity to the clip", 0.031, "≤ 0.1", "good", "Clipping at 10 or 100 changes the estimate by 3 %."
        ),
        diagnostic(
            "propensity audit, arithmetic",
            1.004,
            "1 in its interval",
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
        "logging": estimate(logging, 0.0044),
        "candidates": candidates,
        "diagnostics": checks,
        "weights": {
            "quantiles": {"0.5": 0.62, "0.9": 2.1, "0.99": 6.0, "1": 14.2},
            "histogram": {
                "edges": [-3 + 0.25 * index for index in range(18)],
                "rows": bell(17, 11.5, 3, 480),
                "share": bell(17, 13.4, 2, 0.3),
            },
        },
        "overlap": {
            "edges": [0.05 * index for index in range(21)],
            "logged": bell(20, 5, 4, 260),
            "policy": [left + right for left, right in zip(bell(20, 3, 3, 200), bell(20, 15, 3, 150), strict=True)],
        },
        "calibration": [
            {
                "decile": index,
                "rows": 250,
                "propensity": 0.04 * 1.3**index,
                "model": 0.04 * 1.3**index * (1 + 0.05 * (-1) ** index),
            }
            for index in range(1, 11)
        ],
        "slices": [
            {
                "slice": str(index),
                "column": "position",
                "difference": {"value": -0.03 * index, "low": -0.05 * index, "high": -0.02 * index + 0.03},
                "rows": 2500 // index // 2,
                "effective_size": 800 / index / 2,
                "logging": logging + 0.006 * index,
                "policy": -0.081 + 0.009 * index,
                "low": -0.081 - 0.004 * index,
                "high": -0.081 + 0.022 * index,
                "action": NEWS[index],
                "share": 0.3 + 0.1 * index,
            }
            for index in (1, 2, 3)
        ],
        "explanation": {
            "fidelity": 0.87,
            "rows": 700,
            "is_policy": False,
            "nodes": [
                {"depth": 0, "parent": None, "if": ""},
                {"depth": 1, "parent": 0, "if": "age ≤ 30", "leaf": "age ≤ 30", "action": NEWS[0]},
                {"depth": 1, "parent": 0, "if": "age > 30", "leaf": "age > 30", "action": NEWS[1]},
            ],
        },
        "leaves": [
            {
                "leaf": f"age {side} 30",
                "rows": rows,
                "effective_size": 0.6 * rows,
                "logging": logging,
                "policy": logging - gain,
                "low": logging - 2 * gain,
                "high": logging,
                "difference": {"value": -gain, "low": -2 * gain, "high": 0.0},
                "action": news,
                "share": 0.8,
            }
            for side, rows, gain, news in (("≤", 420, 0.01, NEWS[0]), (">", 980, 0.02, NEWS[1]))
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
            "sentence": "The learned policy (KL-DRO, DR, radius 0.001) earns 0.0784 a decision, 0.0272 more than the "
            "logging policy, and with probability 0.95 at least 0.0142 more.",
            "changes": ["An A/B test with 3 100 decisions for each policy."],
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
    """Costs of deliveries, few rows: the logging policy is kept."""
    logging = 12.4
    answer = deepcopy(better())
    candidates = [
        candidate("π0", 0.0, logging, logging, 0.52, is_logging=True, chosen=True, parameter=None, effective_size=75.0),
        candidate(
            "KL-DRO, DR",
            0.01,
            11.7,
            logging,
            1.1,
            effective_size=31.0,
            certificate={"refused": "mean weight 0.61 ± 0.12 is below 1"},
        ),
        candidate("KL-DRO, DR", 0.1, 12.1, logging, 0.9, effective_size=38.0),
        candidate("CIPS", 0.0, 10.2, logging, 9.5, parameter=None, effective_size=4.1),
    ]
    answer |= {
        "reward": False,
        "candidates": candidates,
        "logging": estimate(logging, 0.52),
        "choices": 4,
        "slices": [],
    }
    answer["log"] |= {"name": "deliveries.parquet", "format": "parquet", "rows": 300, "training": 225, "heldout": 75}
    answer["log"] |= {"contexts": 300, "propensities": "imitated", "skipped": {}}
    del candidates[0]["certificate"], candidates[0]["difference"]
    for item in candidates[2:]:
        item["certificate"]["choices"] = 4
    for item in answer["actions"]:
        item |= {"cost": 12 + 10 * item["cost"]}
    for item in answer["largest_rows"]:
        item |= {"cost": 12.5}
    answer["diagnostics"][0] |= {
        "value": 0.083,
        "level": "caution",
        "sentence": "The weights are worth 6.2 of 75 rows.",
    }
    answer["verdict"] = {
        "verdict": "not shown",
        "sentence": "No candidate is shown to be better than the logging policy. The best, KL-DRO, DR, radius 0.01, "
        "costs an estimated 0.7 less, but the bound on the difference is +1.6.",
        "changes": [
            "About 1 150 held-out rows would show a difference of this size.",
            "Log the propensities; they were estimated.",
        ],
    }
    return answer


def wrong() -> dict:
    """All propensities are doubled."""
    answer = deepcopy(better())
    answer["diagnostics"][1] |= {
        "value": 0.507,
        "low": 0.48,
        "high": 0.53,
        "level": "fail",
        "sentence": "The mean weight is 0.51, so propensities are about twice too large.",
    }
    answer["diagnostics"][5] |= {
        "value": 0.502,
        "low": 0.49,
        "high": 0.52,
        "level": "fail",
        "sentence": "The inverse propensities of all 5 actions do not sum to the number of rows.",
    }
    for item in answer["calibration"]:
        item |= {"propensity": 2 * item["propensity"]}
    for item in answer["candidates"]:
        if not item["is_logging"]:
            item |= {"certificate": {"refused": "the propensities fail their audit"}}
    answer["verdict"] = {
        "verdict": "the log is wrong",
        "sentence": "The actions were not drawn with the logged propensities: their inverses average 0.50 (0.49 to "
        "0.52), not 1.",
        "changes": [
            "Log the probability of each action when it is drawn.",
            "Check that each propensity belongs to the action in its row.",
        ],
    }
    return answer


def diagnosed() -> dict:
    """An answer of ``diagnose``, without candidates and verdict."""
    answer = deepcopy(better())
    answer |= {"command": "diagnose", "candidates": [], "choices": None, "verdict": None, "weights": None}
    for item in answer["actions"]:
        item |= {"policy": None, "unsupported": None}
    answer["overlap"] |= {"policy": None}
    answer["log"] |= {"training": None, "heldout": None, "split": None}
    return answer


def cannot() -> dict:
    """One policy, whose actions the log hardly contains."""
    answer = deepcopy(better())
    policy = candidate(
        "column new_policy", 0.0, -0.09, -0.0512, 0.035, parameter=None, unsupported=0.44, effective_size=7.3
    )
    answer |= {"command": "evaluate_policy", "candidates": [policy], "choices": 1}
    policy["certificate"]["choices"] = 1
    answer["diagnostics"][0] |= {
        "value": 0.003,
        "level": "fail",
        "sentence": "The weights are worth 7.3 of 2 500 rows.",
    }
    answer["diagnostics"][2] |= {
        "value": 0.44,
        "level": "fail",
        "sentence": "The log does not contain 44 % of the policy's actions.",
    }
    answer["actions"][1] |= {"policy": 0.8, "unsupported": 0.44}
    answer["verdict"] = {
        "verdict": "the log cannot say",
        "sentence": "The log does not contain 44 % of the policy's actions, and its effective sample size is 7.3 rows.",
        "changes": ["Explore sport where its propensity is below 0.01."],
    }
    return answer


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
    """Names with HTML, control characters or thousands of characters, and numbers that are not finite."""
    answer = deepcopy(better())
    answer["log"] |= {
        "name": SCRIPT,
        "actions": NAMES * 80,
        "kind": "one of 1040 actions",
        "skipped": {NAMES[8]: 3, SCRIPT: 1},
        "imputed": {NAMES[8]: 3, SCRIPT: 1},
    }
    answer["log"] |= {"digest": "<b>", "format": SCRIPT, "split": SCRIPT}
    bad = [None, math.nan, math.inf, -math.inf, 1e300, -1e-300, 0.5, 3, None, 0, 1, -1]
    answer["actions"] = [
        {
            "action": f"{item}{number or ''}",
            "rows": number,
            "logging": bad[number % 12],
            "policy": bad[number % 7],
            "unsupported": bad[number % 5],
            "cost": bad[number % 11],
        }
        for number, item in enumerate(NAMES * 80)
    ]
    answer["slices"] = [
        {
            "slice": item,
            "policy": -0.05,
            "low": bad[number % 12],
            "high": 1.0,
            "action": item,
            "share": bad[number % 11],
        }
        for number, item in enumerate(NAMES)
    ]
    for item, label in zip(answer["candidates"], NAMES, strict=False):
        item |= {"label": label, "parameter": label, "value": 1e-5}
    answer["candidates"][5]["estimates"]["dr"] = {"value": 1e9, "low": -1e12, "high": math.inf}
    answer["candidates"][6] |= {"certificate": {"refused": SCRIPT}, "estimates": dict.fromkeys(("dr", "ips"))}
    for item, label in zip(answer["diagnostics"], NAMES, strict=False):
        item |= {"name": label, "sentence": label, "threshold": label, "source": label}
    answer["diagnostics"] += [diagnostic(SCRIPT, bad[number], "", "caution", "") for number in range(12)]
    answer["verdict"] |= {"sentence": SCRIPT, "changes": NAMES}
    answer["weights"]["quantiles"] = {"0.5": 1.0, "1": math.inf}
    answer["largest_rows"] = [{"row": 0, "weight": 1e300, "cost": math.nan, "share": 3}]
    answer["made"] = {SCRIPT: NAMES}
    return answer


def as_answer(values: Mapping[str, Any]) -> Answer:
    """Return the answer that has these JSON values. Unknown numbers are NaN."""
    units, verdict, statement = Units(values["reward"], values.get("outcome", "")), None, None
    if values["verdict"]:
        statement = Statement(
            **{"changes": [], "cautions": [], "next_step": values.get("next_step", "")} | values["verdict"]
        )
        verdict = Verdict(values.get("shown", values["verdict"]["verdict"]), constraints=values.get("guardrails", ()))
    is_corrected = verdict is not None and verdict.is_better and (values["choices"] or 1) > 1
    return Answer(
        command=values["command"],
        log=values["log"],
        units=units,
        confidence=values["confidence"],
        logging=as_interval(values["logging"]),
        checks=[Check(consequence=Consequence.NONE, key="", **check) for check in values["diagnostics"]],
        tables={name: values.get(name) or empty for name, empty in TABLES.items()},
        verdict=verdict,
        statement=statement,
        candidates=[as_candidate(entry, units, is_corrected) for entry in values["candidates"]],
        choices=values["choices"],
        blocks=values.get("blocks"),
        breakeven_shift=values.get("breakeven_shift"),
        further={"made": values["made"]},
    )


def as_candidate(entry: Mapping[str, Any], units: Units, is_corrected: bool) -> Candidate:
    """Return the candidate that has these JSON values."""
    return Candidate(
        entry["name"],
        entry["label"],
        {name: as_interval(values) for name, values in entry["estimates"].items()},
        comparison={} if entry["is_logging"] else entry,
        settings=entry,
        units=units,
        is_chosen=entry["chosen"],
        is_best=entry.get("best", False),
        is_logging=entry["is_logging"],
        is_corrected=is_corrected,
    )


def as_interval(values: Mapping[str, float | None] | None) -> Interval | None:
    """Return the interval with these ends. Unknown numbers are NaN."""
    if values is None:
        return None
    known = {name: np.nan if number is None else number for name, number in values.items()}
    return Interval(**{"standard_error": np.nan} | known)


ANSWERS = {
    "better": better,
    "not_shown": not_shown,
    "wrong": wrong,
    "diagnosed": diagnosed,
    "cannot": cannot,
    "hostile": hostile,
}
