"""Description of a log beyond its rows, and the batches of rows that readers yield."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from drcrm.actions import ACTIONS
from drcrm.arrays.tables import Table
from drcrm.arrays.validation import round_probabilities
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Contexts, Encoding
from drcrm.logs.encoding.columns import reject_rows
from drcrm.logs.mapping import LogMapping

LEAST_PROPENSITY = 1e-100  # weights by smaller propensities overflow, and no policy draws such an action


@dataclass(frozen=True, kw_only=True)
class LogDescription:
    """Properties that all rows of a log's file share.

    Attributes
    ----------
    format : "csv", "parquet", "json", "npz", "dsjson", "vw", "obp" or "frame"
    mapping : LogMapping
    kind : "single", "labels" or "lists"
        Kind of the actions.
    encoder : callable
        The ``fit`` of an encoding.
    is_reward : bool
        Whether the costs are negated rewards.
    clock : str, optional
        Kind of the rows' time: numbers, times, or times with zone.
    names : list of str or int
        Names of the actions, or labels; empty for lists, and for batches that number the actions.
    first_action : int, optional
        Number of the first action if the format numbers the actions; None if they have names.
    skipped : dict of int
        Number of rows that the reader skipped, by reason.
    missing : dict of int
        Number of missing values by feature column.
    """

    format: str
    mapping: LogMapping
    kind: str
    encoder: Callable[..., Encoding]
    is_reward: bool = False
    clock: str | None = None
    names: list = field(default_factory=list)
    first_action: int | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def summary(self) -> tuple[str, str, str]:
        """The columns, actions and times, which must be the same in all batches of a log, as phrases."""
        columns = ", ".join(self.mapping.columns)
        return f"the columns {columns}", ACTIONS[self.kind].plural, f"{self.clock} in the column for time"

    @property
    def outcome(self) -> str:
        """The name of the outcome's column; "reward" or "cost" if it has no name."""
        return self.mapping.reward or self.mapping.cost or ("reward" if self.is_reward else "cost")


class Batch(NamedTuple):
    """Consecutive rows of a log, not yet encoded.

    Attributes
    ----------
    description : LogDescription
    contexts : Contexts
    rows : Table
        Columns with a value for each of the n rows:

        - action: A single action is a place in ``names``, or the number minus ``first_action``. An action of a list is
          the place in the context's list. Labels are 0 or 1, (n, q).
        - cost: Lower is better. A reward is negated.
        - propensity: Missing if the propensities are not logged.
        - number: The number of the row in its file, from 0. In a folder, the count continues from file to file.

        Optional columns:

        - context: The context of each row. By default, row i belongs to context i.
        - slice 0, slice 1, …: Codes of the values of the slice columns.
        - logger: Codes of the logging policies.
        - group_marks: Marks of the groups' names, see :func:`drcrm.logs.encoding.identifiers.id_marks`.
        - candidate: Probability that a policy under evaluation gives the logged action.
        - count, or weights: The multiplicity, or the weight if the logger dropped rows at random.
        - time: The order of the rows. Ties are in the order of the file.
        - ids: Hashes of the rows' ids.
        - guardrails: Costs of the guardrails, (n, g).
        - follows: Whether the action is that of the logging policy's rule.
    """

    description: LogDescription
    contexts: Contexts
    rows: Table

    def validated(self) -> Batch:
        """Return the batch with rounded probabilities; InputError without rows, or for a value out of range."""
        columns, mapping = dict(self.rows.columns), self.description.mapping
        numbers, cost = columns["number"], columns["cost"]
        if not self.rows.size:
            raise InputError("has no rows, expected at least one")
        outcome = "reward" if self.description.is_reward else "cost"
        reject_rows(~np.isfinite(cost), cost, outcome, "a finite number", numbers)
        for name, least, expected in (
            ("propensity", np.nextafter(0, 1), "a value in (0, 1]"),
            ("candidate", 0, "a value in [0, 1]"),
            ("propensity", LEAST_PROPENSITY, f"at least {LEAST_PROPENSITY:g}"),
        ):
            if name in columns:
                values: Any = round_probabilities(columns[name])
                columns[name] = values
                reject_rows(~((values >= least) & (values <= 1)), values, mapping.label_of(name), expected, numbers)
        return self._replace(rows=replace(self.rows, columns=columns))
