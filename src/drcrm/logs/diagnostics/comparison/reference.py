"""What a policy is compared with, and how: the reference, its probabilities on a log, and the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.actions.base import Actions, explored_log_prob, uniform_policy
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation import ROBUST
from drcrm.evaluation.evaluation import LOGGING, Evaluation
from drcrm.logs.batches import blocks_of
from drcrm.logs.block_policies import RowBlocks
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.estimated_propensities import SECOND
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.read_log import Source, read_occurring_rows
from drcrm.logs.row_identity import RecognisedRows, RowHashes
from drcrm.policies.base import MixturePolicy
from drcrm.policies.tabular import TabularPolicy

LOGGING_POLICY, BASELINE = "the logging policy", "the baseline"  # in sentences; a name follows the second
Folder = Callable[[], Path]


@dataclass(frozen=True, eq=False)
class Reference:
    """What a policy is compared with: the logging policy π0, or a baseline.

    Attributes
    ----------
    name : str
        Its name in sentences.
    policy : any policy that :func:`drcrm.off_policy_value` accepts, StoredPolicy, "logging" or None
        The baseline, which is stored until a log is opened. π0 has the logged costs. None compares with a cost of 0.
    factor : float
        The factor f of its cost: certificates bound the cost of a policy minus f times this cost.
    radius : float, optional
        Radius κ, if both policies have their worst case around the environment: see
        :class:`drcrm.risks.EnvironmentBall`.
    largest_probability : float
        Upper bound on the probability of an action under the baseline.
    is_same_policy : bool
        Whether the judged policy has the logged propensities, so that it is compared with itself.
    """

    name: str = LOGGING_POLICY
    policy: Any = LOGGING
    factor: float = 1.0
    radius: float | None = None
    largest_probability: float = 1.0
    is_same_policy: bool = False

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline, not the logging policy."""
        return not isinstance(self.policy, str)

    def evaluation(self, policy: Any, log: BanditLog, **known: Any) -> Evaluation:
        """Return the evaluation of a policy on a log in comparison with the reference: see :meth:`Evaluation.of`."""
        return Evaluation.of(policy, log, baseline=self.policy, **known)


NOTHING = Reference(policy=None, factor=0.0)  # for bounds on a cost itself


@dataclass(frozen=True)
class ComparisonSettings:
    """How a policy is compared with the reference, the logging policy or a baseline.

    Attributes
    ----------
    estimate : str
        "dr", "snips" or "ips". "snips" replaces "dr" if there is no cost model, or if the policy's probabilities are
        known only for the logged actions.
    confidence : float
        1 − δ.
    choices : int
        Number K of candidates that were compared on the same rows.
    effective_choices : int, optional
        Effective number of candidates, by default K. δ is divided by it: see :mod:`drcrm.selection.candidates`.
    guardrail_choices : mapping
        The same for the outcome of each guardrail, by its name.
    blocks : RowBlocks, optional
        Blocks of the rows, if the policy of each block was learned from the rows before it.
    cost_range : (float, float), optional
        Bounds on the costs, if known.
    gamma : float, optional
        Factor Γ of the sensitivity to wrong propensities. By default it is computed only for a better policy.
    reference : Reference
        Reference of the comparison. Under a shift, the sensitivity is not computed.
    full_support : bool
        Whether the logging policy is known to take every action in every context.
    """

    estimate: str = ROBUST
    confidence: float = 0.95
    choices: int = 1
    cost_range: tuple[float, float] | None = None
    gamma: float | None = None
    effective_choices: int | None = None
    reference: Reference = field(default_factory=Reference)
    full_support: bool = False
    guardrail_choices: Mapping[str, int] = field(default_factory=dict)
    blocks: RowBlocks | None = None

    @property
    def divisor(self) -> int:
        """The number of candidates that share δ."""
        return self.effective_choices or self.choices

    def choices_of(self, key: str) -> int:
        """Return the number of candidates that share δ for a guardrail or limit: all of them if it is unknown."""
        return self.guardrail_choices.get(key, self.choices)


def policy_on_rows(stored: StoredPolicy, raw_log: BanditLog, rows: np.ndarray | None, log: BanditLog) -> TabularPolicy:
    """Return a stored policy's probabilities on rows of a log that has the encoding of another policy.

    Parameters
    ----------
    stored : StoredPolicy
        Policy with its own encoding: its features are columns of the log, and its actions occur in the log.
    raw_log : BanditLog
        Log of a reader, whose X is a table of features.
    rows : bool array (n,), optional
        Selected rows; by default all.
    log : BanditLog
        The same rows, encoded. An action of the log that the policy does not have gets the probability 0.

    Raises
    ------
    InputError
        If the policy has another kind of actions, or an action that the log lacks.
    """
    encoding, encoding_of_log = stored.encoding, log.encoding
    if not stored.policy.actions.is_like(log.actions):
        raise InputError(f"the baseline is over {stored.policy.actions}, the log has {log.actions}")
    if isinstance(stored.policy, MixturePolicy) and not log.actions.are_choices:
        raise InputError("the baseline is a mixture over label vectors, expected a policy with independent labels")
    columns = _columns(encoding.names, encoding_of_log.names, log.actions)
    parts: list[list[np.ndarray]] = [[], []]
    for _, block in blocks_of(raw_log, rows):
        X = encoding.contexts(Contexts(block.X, block.actions.starts))
        for part, explore in zip(parts, (0.0, 1.0), strict=True):
            part.append(_reorder(stored.policy.with_exploration(explore).marginals(X), columns, log))
    plain, uniform = map(np.concatenate, parts)
    explore, actions = stored.policy.explore, log.actions
    log_probs = (actions.log_prob(mean, log.Y, log.context) for mean in (plain, uniform))
    log_prob = explored_log_prob(*log_probs, explore)
    if not actions.are_choices and np.array_equal(uniform, uniform_policy(actions, plain)[1]):
        return TabularPolicy.for_log(log_prob, plain, log, explore)
    return TabularPolicy.for_log(log_prob, (1 - explore) * plain + explore * uniform, log)


def with_features_of(
    raw_log: BanditLog, stored: StoredPolicy, path: Source, folder: Folder | None, most: int
) -> BanditLog:
    """Return a reader's log with the features of a stored policy: the file is read again if they are other columns.

    ``folder`` and ``most`` are those of :func:`drcrm.logs.read_log.read_raw_log`.
    """
    trained, mapping = stored.mapping, raw_log.description.mapping
    features = {name: getattr(trained, name) for name in ("numeric", "categorical", "times", "interactions")}
    if all(getattr(mapping, name) == value for name, value in features.items()):
        return raw_log
    read = read_occurring_rows(path, replace(mapping, **features), folder, most)
    return read.replace(propensity=raw_log.propensity)


def find_rows(stored: StoredPolicy, hashes: RowHashes, propensity: np.ndarray, digest: str) -> RecognisedRows:
    """Return the rows of a log that a policy was learned from: by the file's digest, or by hashes of the rows."""
    learned: Any = stored.rows
    if digest == stored.header.get("digest") and len(propensity) == len(learned.keys):
        return RecognisedRows(~learned.heldout, learned.heldout)
    return learned.recognise(hashes, propensity)


def leave_out_training(
    recognised: RecognisedRows | None, trained: np.ndarray, groups: np.ndarray | None
) -> RecognisedRows | None:
    """Return the recognised rows of a policy, without held-out and new rows that ``trained`` the baseline.

    These rows, and those of the same groups, count as training rows: a policy looks better than it is on its own
    training rows. Raise InputError if no other rows are left.
    """
    if not trained.any():
        return recognised
    trained = trained if groups is None else np.isin(groups, groups[trained])
    recognised = recognised or RecognisedRows(trained, np.zeros_like(trained))
    training = recognised.training | trained
    if training.all():
        raise InputError("all rows trained the policy or the baseline, expected held-out or new rows")
    return replace(recognised, training=training, heldout=recognised.heldout & ~trained)


def _columns(names: list, log_names: list, actions: Actions) -> np.ndarray | None:
    """Return the column of the log for each action or label of the policy; None without names."""
    if not names:
        return None
    names, log_names = [*map(str, names)], [*map(str, log_names)]
    place = {action: number for number, action in enumerate(log_names)}
    if absent := [action for action in names if action not in place]:
        raise InputError(f"the baseline takes {absent[0]!r}, which the log lacks: the log says nothing about its cost")
    if not actions.are_choices and len(names) < len(log_names):
        raise InputError(f"the baseline has {len(names)} labels, the log has {len(log_names)}")
    return np.array([place[action] for action in names])


def _reorder(mean: np.ndarray, columns: np.ndarray | None, log: BanditLog) -> np.ndarray:
    if columns is None:
        return mean
    ordered = np.zeros((len(mean), *log.actions.shape))
    ordered[:, columns] = mean
    return ordered


def by_each_model(evaluation: Evaluation) -> list[Evaluation]:
    """Return the evaluation, and that with the log's second estimate of its propensities, if it has one."""
    second = evaluation.log.column(SECOND)
    return [evaluation] if second is None else [evaluation, evaluation.with_propensities(second)]
