"""Linear policies for other systems: as a SQL query, and as a Python function without imports.

Both compute the score of each action from numbers, booleans and one-hot categories, and the softmax of the scores.
"""

from __future__ import annotations

from typing import Any

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import MISSING
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.context_scores import export_policy
from drcrm.logs.serving.tree_export import (
    LARGEST,
    TABLE,
    boolean_number,
    boolean_texts,
    identifier,
    literal,
    python_source,
    spellings,
)

LARGEST_POWER = 700  # of e in the query; powers of this size are floats, and some databases refuse larger ones
ZERO_ONE = 1e-9  # by which the variance of a column of 0 and 1 may differ from m (1 − m), for its mean m

REFUSED = {  # types of features that SQL and Python without imports cannot compute
    "hour": "other systems read times in other ways: write the hour to a column of its own, and learn from it",
    "weekday": "other systems read times in other ways: write the weekday to a column of its own, and learn from it",
    "hashed": "its categories are hashed, which SQL and Python without imports cannot compute",
}
BODY = """\
    explore, scores = $EXPLORE, $INTERCEPT
    for feature in $FEATURES:
        terms = [0.0] * len(names)
        if feature["type"] == "category":
            value = category(context[feature["name"]])
            terms = feature["coef"].get("" if value is None else value, terms)
        else:
            value = number(context[feature["name"]])
            if value is None:
                terms = feature["missing"] or terms
            else:
                terms = [(value - feature["mean"]) / feature["scale"] * weight for weight in feature["coef"]]
        scores = [score + term for score, term in zip(scores, terms)]
    powers = [2.718281828459045 ** (score - max(scores)) for score in scores]
    shares = [explore / len(names) + (1 - explore) * power / sum(powers) for power in powers]
    return dict(zip(names, shares))
"""


def export_plain(stored: StoredPolicy) -> dict[str, Any]:
    """Return the content of a linear policy; InputError with the reason if SQL and Python cannot compute it."""
    content = export_policy(stored)
    if content["kind"] != "single":
        raise InputError("only a policy of one of K actions can be exported as SQL or Python; use --format json")
    for feature in content["features"]:
        if feature["type"] in REFUSED:
            reason = (
                f"the policy uses the {feature['type']} feature {feature['name']!r}, and {REFUSED[feature['type']]}"
            )
            raise InputError(f"{reason}; or use --format json")
    encoding: Any = stored.encoding
    return content | {"booleans": boolean_texts(encoding)}


def to_sql(content: dict[str, Any]) -> str:
    """Return a query that adds the scores, the best action and the probability of each action to rows of a table."""
    names, explore = [str(name) for name in content["names"]], content["explore"]
    scores = [identifier(f"score_{name}") for name in names]
    best = [
        f"    WHEN {' AND '.join(f'{score} >= {later}' for later in scores[place + 1 :])} THEN {literal(name)}"
        for place, (score, name) in enumerate(zip(scores[:-1], names[:-1], strict=True))
    ]
    shares = []
    for name, score in zip(names, scores, strict=True):
        total = " + ".join(_power(f"{rival} - {score}") if rival != score else "1.0e0" for rival in scores)
        share = f"{explore / len(names):.16e} + {1 - explore:.16e} / ({total})"
        shares.append(f"  {share} AS {identifier(f'p_{name}')}")
    sums = []
    for place, constant in enumerate(content["intercept"]):
        terms = [f"    {constant:.16e}", *(_term(feature, place, content) for feature in content["features"])]
        sums.append("\n      + ".join(terms))
    return "\n".join(
        [
            "-- The scores and the best action of a linear policy, and the probability of each action with its share",
            f"-- of exploration. Replace {TABLE} by your table. Numbers must be finite, or NULL or NaN if missing.",
            "-- Categories are compared as texts; a NaN counts as missing.",
            "SELECT scored.*,",
            *("  CASE", *best, f"    ELSE {literal(names[-1])} END AS best_action,"),
            ",\n".join(shares),
            "FROM (",
            f"  SELECT {TABLE}.*,",
            ",\n".join(f"{total}\n      AS {score}" for total, score in zip(sums, scores, strict=True)),
            f"  FROM {TABLE}",
            ") scored",
        ]
    )


def _power(exponent: str) -> str:
    """Return the power of e as an expression, for an exponent that is cut at ± LARGEST_POWER."""
    limits = f"WHEN {exponent} > {LARGEST_POWER} THEN {LARGEST_POWER} WHEN {exponent} < -{LARGEST_POWER}"
    return f"EXP(CASE {limits} THEN -{LARGEST_POWER} ELSE {exponent} END)"


def _term(feature: dict[str, Any], place: int, content: dict[str, Any]) -> str:
    """Return the term of a feature in the score of an action; a comparison with NULL or NaN is not true."""
    column, coef = identifier(feature["name"]), feature["coef"]
    if feature["type"] == "category":
        cases = [
            f"WHEN {literal(text)} THEN {of_value[place]:.16e}"
            for value, of_value in coef.items()
            for text in (spellings(value) if value != MISSING else [MISSING, "nan"])
        ]
        return f"CASE COALESCE(CAST({column} AS VARCHAR), '') {' '.join(cases)} ELSE 0.0e0 END"
    mean, scale = feature["mean"], feature["scale"]
    is_boolean = abs(scale**2 - mean * (1 - mean)) < ZERO_ONE or (scale == 1 and mean in (0, 1))
    value = boolean_number(column, content) if is_boolean else column
    missing = feature["missing"][place] if feature["missing"] else 0.0
    standardised = f"({value} - {mean:.16e}) / {scale:.16e}"
    return f"CASE WHEN {value} <= {LARGEST:.16e} THEN {standardised} * {coef[place]:.16e} ELSE {missing:.16e} END"


def to_python(content: dict[str, Any]) -> str:
    """Return the source of a function without imports that returns the probability of each action."""
    texts = {text for part in content["features"] if part["type"] == "category" for text in part["coef"]}
    return python_source(BODY, content, texts)
