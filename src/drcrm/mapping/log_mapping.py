"""Mapping of a log, in YAML, JSON or a dict: what the columns of a file mean, and how to learn from it.

``mapping.schema.json`` describes the keys; :mod:`drcrm.mapping.checks` has the checks that a schema cannot express.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.mapping.checks import BLOCKS, FEATURES, HOLDOUT, find_conflicts, plain_copy, read_content, validate
from drcrm.mapping.entries import ActionLimit, Guardrail, KnownPropensity, as_number

SHARE = 25  # percent of the rows that are held out by default
REFIT, MIXTURE = "refit", "mixture"
Names: TypeAlias = list[str]  # LogMapping has an attribute ``list``
EXPLORE = 0.05  # share of uniform actions in the learned policy
COLUMNS = (
    *("action", "labels", "list", "chosen", "propensity", "reward", "cost"),
    *("id", "time", "slice", "logged_by", "group", "candidate"),
)
LEARNING = (
    *("interactions", "algorithm", "split", "validation", "cost_range", "least_propensity", "explore", "shift"),
    *("propensity_model", "most_rows", "deploy"),
)


@dataclass(frozen=True)
class LogMapping:
    """What the columns of a log mean, and how to learn from it.

    Attributes
    ----------
    action : str, optional
        Column of the logged action, integers or texts.
    labels : tuple of str, optional
        For label vectors: a column of 0 and 1 for each label.
    list, chosen : str, optional
        For lists of actions with a row for each candidate: the column of the list's id, and a column of 0 and 1 that
        marks the logged candidate. Its row has the propensity and the outcome.
    propensity : str, optional
        Column of π0(a|x) of the logged action; None if ``propensity_model`` estimates it.
    known_propensity : KnownPropensity, optional
        Logging policy that needs no such column, or whose columns have the probabilities of all actions.
    propensity_model : "softmax", "trees" or "auto", optional
    trusts_propensities : bool
        Whether the user takes estimated propensities as right.
    reward, cost : str, optional
        Column of r, or of c = −r; only one of them.
    numeric, categorical : tuple of str
        Feature columns; None if the mapping has no ``features``.
    times : tuple of str
        Columns of dates and times whose hour and weekday are features.
    interactions : int, optional
        For lists of actions: largest number of features whose products are features.
    time : str, optional
        Column that orders the rows. Without it, they are in the order of the file.
    id : str, optional
        Column that identifies a row, also in later logs.
    slice : str or tuple of str, optional
        A column, or several. Its values get separate lines in the report.
    logged_by, group, candidate : str, optional
        ``logged_by`` names the logging policy. Rows with the same ``group`` depend on each other. ``candidate`` has a
        policy's probability of the logged action.
    algorithm : str, dict or list of them, optional
    split : str
        Held-out rows: "random 25 %", "last 25 %" or "group 25 %".
    validation : "holdout" or "blocks"
        Whether held-out rows test the best candidate, or blocks of rows the policies that are learned before them.
    deploy : "refit" or "mixture", optional
        The policy to write with blocks: learned from all rows (the default), or the mixture of the blocks' policies.
    cost_range : (float, float), optional
        Known bounds on the costs.
    least_propensity : float, optional
        Known lower bound on the probability with which the logging policies take any action.
    most_rows : float, optional
        Known upper bound on the number of rows of a group, or on the weight of a row.
    explore : float
        Share ε of uniform actions in the learned policy.
    guardrails : tuple of Guardrail
        Outcomes that a better policy must not worsen by more than a margin.
    limits : tuple of ActionLimit
        Limits on the shares of actions, and last the budget.
    shift : float, optional
        Radius κ, if policies are compared by their worst case around the environment.
    delimiter, decimal : str, optional
        Format of CSV, detected by default.
    encoding : str, optional
        Encoding of CSV, by default UTF-8, or UTF-16 with a byte order mark.
    booleans : tuple of str
        Pairs of texts for 1 and 0, such as yes/no.
    """

    action: str | None = None
    labels: tuple[str, ...] | None = None
    list: str | None = None
    chosen: str | None = None
    propensity: str | None = None
    known_propensity: KnownPropensity | None = None
    propensity_model: str | None = None
    trusts_propensities: bool = False
    reward: str | None = None
    cost: str | None = None
    numeric: tuple[str, ...] | None = None
    categorical: tuple[str, ...] | None = None
    times: tuple[str, ...] = ()
    interactions: int | None = None
    id: str | None = None
    time: str | None = None
    slice: str | tuple[str, ...] | None = None
    logged_by: str | None = None
    group: str | None = None
    candidate: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    booleans: tuple[str, ...] = ()
    algorithm: str | dict | Sequence | None = None
    split: str = f"random {SHARE} %"
    validation: str = HOLDOUT
    deploy: str | None = None
    cost_range: tuple[float, float] | None = None
    least_propensity: float | None = None
    most_rows: float | None = None
    explore: float = EXPLORE
    guardrails: tuple[Guardrail, ...] = ()
    limits: tuple[ActionLimit, ...] = ()
    shift: float | None = None

    @property
    def split_rule(self) -> tuple[str, float]:
        """Return what is held out, "random", "last" or "group", and its share."""
        kind, share = self.split.split(maxsplit=1)
        return kind, as_number(share)

    def with_validation(self, validation: str | None, deploy: str | None = None) -> LogMapping:
        """Return the mapping with another validation, and another policy to write; None keeps its own."""
        changes = {"validation": validation or self.validation, "deploy": deploy or self.deploy}
        if all(getattr(self, name) == value for name, value in changes.items()):
            return self
        content = self.as_dict() | changes
        if validation == BLOCKS and self.split in (f"random {SHARE} %", f"group {SHARE} %"):
            content.pop("split", None)
        return as_mapping(content)

    @property
    def columns(self) -> Names:
        """Return the columns to read, each once."""
        names = [name for key in COLUMNS if key not in ("labels", "slice") and (name := getattr(self, key))]
        names += [*(self.known_propensity.columns if self.known_propensity else ()), *self.slice_columns]
        features = (*(self.numeric or ()), *(self.categorical or ()), *self.times)
        further = [*self.guardrail_columns, *filter(None, [self.price_column])]
        return list(dict.fromkeys([*names, *(self.labels or ()), *features, *further]))

    @property
    def rule(self) -> str | None:
        """Return the column of the logging policy's rule."""
        return self.known_propensity.rule if self.known_propensity else None

    @property
    def weights(self) -> str | tuple[str, ...] | None:
        """Return the column, or the columns, of the logging policy's probabilities of all actions."""
        return self.known_propensity.weights if self.known_propensity else None

    @property
    def has_full_support(self) -> bool:
        """Whether every action of every context has at least a known probability under the logging policy."""
        return self.least_propensity is not None and self.propensity_model is None

    @property
    def lacks_propensities(self) -> bool:
        """Return whether propensities do not come from the file, but are known or estimated."""
        return self.known_propensity is not None or self.propensity_model is not None

    @property
    def slice_columns(self) -> Names:
        """Return the columns of the slices."""
        return [self.slice] if isinstance(self.slice, str) else list(self.slice or ())

    @property
    def guardrail_columns(self) -> Names:
        """Return the columns of the guardrails, one for each guardrail."""
        return [guardrail.column for guardrail in self.guardrails]

    @property
    def constraints(self) -> Sequence[Guardrail | ActionLimit]:
        """Return the guardrails and the limits."""
        return [*self.guardrails, *self.limits]

    @property
    def price_column(self) -> str | None:
        """Return the column of the prices of the logged actions."""
        return next((limit.column for limit in self.limits if limit.column is not None), None)

    @property
    def number_columns(self) -> Names:
        """Return the columns that must have numbers."""
        numbers = self.chosen, self.propensity, self.reward, self.cost, self.candidate, self.list and self.rule
        weights = self.weights if isinstance(self.weights, tuple) else ()
        columns = [*numbers, self.price_column, *self.guardrail_columns, *weights]
        return list(dict.fromkeys(filter(None, [*columns, *(self.labels or ()), *(self.numeric or ())])))

    def has_outcome_of(self, other: LogMapping) -> bool:
        return (self.reward, self.cost) == (other.reward, other.cost)

    def has_comparison_of(self, other: LogMapping) -> bool:
        """Return whether the policies of both mappings are compared by the same outcome, under the same shift."""
        return self.has_outcome_of(other) and self.shift == other.shift

    def label_of(self, key: str, column: str | None = None) -> str:
        """Return a key and a column, by default its own, as messages name them."""
        column = column or getattr(self, key)
        return key if column in (None, key) else f"{key} {column!r}"

    def as_dict(self) -> dict:
        """Return the mapping as a user writes it, with JSON types."""
        keys = (*COLUMNS, "delimiter", "decimal", "encoding", "booleans", *LEARNING)
        content = {key: value for key in keys if (value := getattr(self, key)) not in (None, ())}
        del content["split" if self.validation == BLOCKS else "validation"]
        if self.numeric is not None:
            content["features"] = {"numeric": list(self.numeric), "categorical": list(self.categorical or ())}
            content["features"] |= {"time": list(self.times)} if self.times else {}
        if self.propensity_model:
            content["propensity"] = None
        if self.trusts_propensities:
            content["propensity_model"] = {"model": self.propensity_model, "trusted": True}
        if self.known_propensity:
            content["propensity"] = self.known_propensity.as_dict()
        for limit in self.limits:
            [(key, value)] = limit.as_dict().items()
            content[key] = content.get(key, {}) | value
        if self.guardrails:
            content["guardrails"] = {guardrail.name: guardrail.as_dict() for guardrail in self.guardrails}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in content.items()}

    def require_table(self) -> LogMapping:
        """Return the mapping; InputError if it lacks a key that a table needs."""
        for key, present, expected in (
            (
                "action",
                self.action or self.labels or self.list,
                "a column's name, or labels (drcrm init LOG proposes a mapping)",
            ),
            ("reward", self.reward or self.cost, "a column's name, or cost"),
            (
                "propensity",
                self.propensity or self.lacks_propensities,
                "a column's name, {uniform: true}, or null with propensity_model: auto",
            ),
            ("features", self.numeric is not None, "{numeric: [...], categorical: [...]}, or {} for none"),
        ):
            if not present:
                raise InputError(f"mapping has no {key}, expected {expected}")
        return self

    def require_no_columns(self, form: str) -> LogMapping:
        """Return the mapping; InputError if it names columns of a file without named columns."""
        keys = [key for key in (*COLUMNS, "guardrails") if getattr(self, key) not in (None, ())]
        keys += ["budget.column"] if self.price_column else []
        keys += [f"propensity.{key}" for key in ("rule", "weights") if getattr(self, key)]
        if keys or self.numeric is not None:
            raise InputError(f"mapping has {[*keys, 'features'][0]}, but {form} has no named columns: remove the key")
        return self


def as_mapping(content: Any, name: str = "mapping") -> LogMapping:
    """Return a mapping from a dict or from the path of a YAML or JSON file.

    Parameters
    ----------
    content : dict, str, Path, LogMapping or None
        None is an empty mapping, for files that need none.
    name : str
        Name of the mapping in messages; for a file, its path.

    Raises
    ------
    InputError
        If the file cannot be read, or a key is unknown, has a value of a wrong type, or conflicts with another key.
    """
    if isinstance(content, LogMapping):
        return content
    if isinstance(content, str | Path):
        with prefix_errors(content):
            return as_mapping(read_content(Path(content)))
    if content is None:
        return LogMapping()
    if not isinstance(content, Mapping):
        raise InputError(f"{name} is of type {type(content).__name__}, expected a mapping of keys such as action: item")
    content = validate(content, name)
    values = {key: value for key, value in content.items() if value is not None and key != "features"}
    if isinstance(texts := values.get("booleans"), str):
        values["booleans"] = (texts,)
    converters: dict[str, Any] = {
        "labels": tuple,
        "booleans": tuple,
        "algorithm": plain_copy,
        "interactions": int,
        "cost_range": lambda ends: tuple(map(to_float, ends)),
        "slice": lambda columns: columns if isinstance(columns, str) else tuple(columns),
        "guardrails": lambda entries: tuple(Guardrail.of(str(name), entry) for name, entry in entries.items()),
    }
    shares = [ActionLimit.of_share(str(name), share) for name, share in values.pop("limits", {}).items()]
    budget = [ActionLimit.of_budget(values.pop("budget"))] if "budget" in values else []
    values |= {"limits": (*shares, *budget)}
    values |= {key: convert(values[key]) for key, convert in converters.items() if key in values}
    if "features" in content:
        features = content["features"] or {}
        values |= {attribute: tuple(features.get(key) or ()) for key, attribute in FEATURES.items()}
    if isinstance(values.get("propensity"), Mapping):
        values["known_propensity"] = KnownPropensity.of(values.pop("propensity"))
    if isinstance(model := values.get("propensity_model"), Mapping):
        values |= {"propensity_model": model["model"], "trusts_propensities": bool(model.get("trusted"))}
    if "group" in values:
        values.setdefault("split", f"group {SHARE} %")
    mapping = LogMapping(**values)
    has_null = "propensity" in content and content["propensity"] is None
    for conflict in find_conflicts(mapping, has_null, has_split=content.get("split") is not None):
        raise InputError(conflict)
    return mapping
