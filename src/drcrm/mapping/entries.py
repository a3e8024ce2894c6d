"""Entries of a mapping with parts of their own: guardrails, limits on actions, and known logging policies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from drcrm.arrays.formats import format_number
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError


def as_number(value: Any) -> float:
    """Return the number of a text such as ``5 %``, or of a number."""
    return float(value.rstrip("% ")) / 100 if isinstance(value, str) else to_float(value)


@dataclass(frozen=True)
class Guardrail:
    """An outcome that a better policy must not worsen by more than a margin.

    Attributes
    ----------
    name : str
    column : str
        Column of the outcome.
    is_reward : bool
        Whether higher is better. The outcome is then negated to a cost.
    margin : float
        Largest allowed increase of the mean cost: ``at_most`` of a cost, minus ``at_least`` of a reward.
    is_relative : bool
        Whether the margin is a share of the logging policy's mean, or of a baseline's, which must then be positive.
    cost_range : (float, float), optional
        Known bounds on the cost.
    """

    name: str
    column: str
    is_reward: bool
    margin: float
    is_relative: bool = False
    cost_range: tuple[float, float] | None = None

    @classmethod
    def of(cls, name: str, content: Mapping[str, Any]) -> Self:
        """Return the guardrail of a mapping's entry, which matches the schema."""
        label, is_reward = f"guardrails.{name}", content.get("reward") is not None
        column, key = ("reward", "at_least") if is_reward else ("cost", "at_most")
        value, is_relative = as_number(content[key]), isinstance(content[key], str)
        if is_relative and value < -1:
            raise InputError(f"{label}.{key} is {content[key]!r}, expected at least -100 %")
        sign, ends = -1 if is_reward else 1, content.get("range")
        costs = None if ends is None else sorted(0.0 + sign * to_float(end) for end in ends)
        if ends and not ends[0] < ends[1]:
            raise InputError(f"{label}.range is {list(ends)!r}, expected [least, largest], with least < largest")
        cost_range = None if costs is None else (costs[0], costs[1])
        return cls(name, content[column], is_reward, 0.0 + sign * value, is_relative, cost_range)

    @property
    def sign(self) -> int:
        """1 for a cost and −1 for a reward: times a cost, it is the outcome as it is written."""
        return -1 if self.is_reward else 1

    @property
    def key(self) -> str:
        """The guardrail's key among the effective numbers of candidates."""
        return self.name

    @property
    def label(self) -> str:
        """The guardrail and its column as messages name them."""
        return f"guardrail {self.name!r}" + (f", column {self.column!r}," if self.column != self.name else "")

    @property
    def baseline_factor(self) -> float:
        """The factor f: the margin holds if the policy's cost is at most f times the cost to compare with."""
        return 1.0 + (self.sign * self.margin if self.is_relative else 0.0)

    def has_terms_of(self, other: Self) -> bool:
        """Return whether the bounds of both guardrails are on the same terms; absolute margins may differ."""
        return all(getattr(self, name) == getattr(other, name) for name in ("column", "is_reward", "baseline_factor"))

    def margin_of(self, mean_cost: float) -> float:
        """Return the margin in units of the cost, for the mean cost of the logging policy or the baseline.

        Raise InputError if the margin is relative and the mean outcome is not positive.
        """
        if not self.is_relative:
            return self.margin
        if not self.sign * mean_cost > 0:
            raise InputError(
                f"the margin is in per cent of the mean to compare with, which must be above 0, got "
                f"{format_number(self.sign * mean_cost)}; write the margin in units of {self.column}"
            )
        return self.margin * self.sign * mean_cost

    def describe_margin(self) -> str:
        """Return the margin in the words of the mapping, such as "at least -1 %"."""
        side, value = ("at least", -self.margin) if self.is_reward else ("at most", self.margin)
        text = f"{100 * value if self.is_relative else value:+.10g}" if value else "0"
        return f"{side} {text}{' %' if self.is_relative else ''}"

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a user writes it."""
        value = self.sign * self.margin
        content: dict[str, Any] = {"reward" if self.is_reward else "cost": self.column}
        content["at_least" if self.is_reward else "at_most"] = f"{100 * value:.15g} %" if self.is_relative else value
        if self.cost_range is not None:
            content["range"] = sorted(0.0 + self.sign * end for end in self.cost_range)
        return content


@dataclass(frozen=True)
class ActionLimit:
    """A limit on the share of an action, or on the mean price of the actions per row.

    Attributes
    ----------
    at_most : float
        Largest mean price. An action whose share is limited has the price 1, and all others have 0.
    action : str, optional
        The action whose share is limited.
    prices : dict of float, optional
        Price of each action by its name.
    column : str, optional
        Column with the price of the logged action. The price of an action is then its mean, with weights 1/p.
    """

    at_most: float
    action: str | None = None
    prices: Mapping[str, float] | None = None
    column: str | None = None

    @classmethod
    def of_share(cls, action: str, share: Any) -> Self:
        """Return the limit of an entry of the key ``limits``, which matches the schema."""
        value = as_number(share)
        if not 0 < value <= 1:
            raise InputError(f"limits.{action} is {share!r}, expected a share above 0 and at most 1, such as '20 %'")
        return cls(value, action=action)

    @classmethod
    def of_budget(cls, content: Mapping[str, Any]) -> Self:
        """Return the limit of the key ``budget``, which matches the schema."""
        prices = content.get("prices")
        numbers = None if prices is None else {str(name): to_float(price) for name, price in prices.items()}
        return cls(to_float(content["at_most"]), prices=numbers, column=content.get("column"))

    @property
    def name(self) -> str:
        """The limit as sentences and answers name it."""
        return "budget" if self.action is None else f"share of {self.action}"

    def format(self, value: float) -> str:
        """Return a share in per cent, or a price."""
        return f"{value:.4g}" if self.action is None else f"{100 * value:.3g} %"

    @property
    def key(self) -> str:
        """The limit's key among the effective numbers of candidates; no guardrail has such a name by chance."""
        return f"limit on the {self.name}"

    def has_terms_of(self, other: Self) -> bool:
        """Return whether the bounds of both limits are on the same terms; the limits may differ."""
        return replace(self, at_most=other.at_most) == other

    def as_dict(self) -> dict[str, Any]:
        """Return the key and the value that a user writes."""
        if self.action is not None:
            return {"limits": {self.action: self.at_most}}
        prices = {"column": self.column} if self.prices is None else {"prices": dict(self.prices)}
        return {"budget": prices | {"at_most": self.at_most}}


@dataclass(frozen=True)
class KnownPropensity:
    """A known logging policy: each action has p, or (1 − ε) 1[a = rule(x)] + ε/K, or the log has all probabilities.

    Attributes
    ----------
    constant : float, optional
        p, the probability of every logged action.
    rule : str, optional
        Column of the rule's action; for lists, of 0 and 1 with 1 for the rule's candidate. Without it, ε is 1.
    exploration : float in (0, 1]
        ε, the share of decisions that draw a uniform action.
    weights : str or tuple of str, optional
        Column of lists with the probabilities of all actions of each row, or a column for each action.
    actions : tuple of str, optional
        The actions in the order of the weights. By default they are the whole numbers from 0.
    """

    constant: float | None = None
    rule: str | None = None
    exploration: float = 1.0
    weights: str | tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return the logging policy of a valid value of the key ``propensity``."""
        numbers = {key: to_float(content[key]) for key in ("constant", "exploration") if key in content}
        weights, actions = content.get("weights"), content.get("actions")
        weights = tuple(weights) if isinstance(weights, list | tuple) else weights
        names = None if actions is None else tuple(map(str, actions))
        if names is not None and isinstance(weights, tuple) and len(names) != len(weights):
            raise InputError(f"propensity has {len(weights)} weights, but {len(names)} actions, expected as many")
        return cls(rule=content.get("rule"), weights=weights, actions=names, **numbers)

    def action_names(self, n_weights: int) -> list[str]:
        """Return the actions in the order of the weights."""
        return [*map(str, range(n_weights))] if self.actions is None else list(self.actions)

    @property
    def columns(self) -> list[str]:
        """The columns that have the rule's action, or the weights."""
        weights = [self.weights] if isinstance(self.weights, str) else self.weights or ()
        return [*filter(None, [self.rule]), *weights]

    def as_dict(self) -> dict[str, Any]:
        """Return the value of the key ``propensity``."""
        if self.rule is not None:
            return {"rule": self.rule, "exploration": self.exploration}
        if self.weights is not None:
            content: dict[str, Any] = {
                "weights": self.weights if isinstance(self.weights, str) else list(self.weights),
                "actions": self.actions and list(self.actions),
            }
            return {key: value for key, value in content.items() if value}
        return {"uniform": True} if self.constant is None else {"constant": self.constant}

    def probabilities(self, n_choices: np.ndarray, follows: np.ndarray | None = None) -> np.ndarray:
        """Return the probability of each logged action, (n,).

        Parameters
        ----------
        n_choices : array (n,)
            K of each row: the number of actions, or of candidates of its list, or of label vectors.
        follows : bool array (n,), optional
            Whether the row has the rule's action.

        Raises
        ------
        InputError
            If no row has the action of the rule.
        """
        if self.constant is not None:
            return np.full(len(n_choices), self.constant)
        explored = self.exploration / n_choices
        if follows is None:
            return explored
        if not follows.any():
            raise InputError(
                f"propensity.rule names the column {self.rule!r}, but the log never follows the rule; its actions must "
                "be written like the log's actions"
            )
        return (1 - self.exploration) * follows + explored
