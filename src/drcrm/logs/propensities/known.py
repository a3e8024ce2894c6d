"""Propensities that a mapping describes: uniform actions, a constant, or a rule with uniform exploration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError


@dataclass(frozen=True)
class KnownPropensity:
    """A logging policy whose probabilities need no column: each action has p, or (1 − ε) 1[a = rule(x)] + ε/K.

    Attributes
    ----------
    constant : float, optional
        p, the probability of every logged action.
    rule : str, optional
        Column of the rule's action; for lists, of 0 and 1 with 1 for the rule's candidate. Without it, ε is 1.
    exploration : float in (0, 1]
        ε, the share of decisions that draw a uniform action.
    """

    constant: float | None = None
    rule: str | None = None
    exploration: float = 1.0

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> KnownPropensity:
        """Return the logging policy of a valid value of the key ``propensity``."""
        numbers = {key: to_float(content[key]) for key in ("constant", "exploration") if key in content}
        return cls(rule=content.get("rule"), **numbers)

    def as_dict(self) -> dict[str, Any]:
        """Return the value of the key ``propensity``."""
        if self.rule is not None:
            return {"rule": self.rule, "exploration": self.exploration}
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
