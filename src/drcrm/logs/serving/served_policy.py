"""A learned policy inside an application: contexts in the form of the application, actions by their names."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.actions.one_of_many import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import check_choice
from drcrm.data.chunked_log import limit_threads
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.base import Contexts, HashedEncoding, number_rows
from drcrm.logs.encoding.listed_tables import ListedTableEncoding
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.readers.dsjson import features
from drcrm.logs.readers.vw_text import Decision, contexts_of
from drcrm.logs.serving import exports
from drcrm.logs.serving.context_scores import ContextScores, export_policy, has_fast_scores
from drcrm.policies.base import MixturePolicy
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.trees.tree import tree_of

LIST = "_multi"  # key of a context's list of actions, as in dsjson


def load_policy(path: str | Path) -> ServedPolicy:
    """Return the policy in a file that ``drcrm learn`` wrote.

    Parameters
    ----------
    path : str or Path
        Policy file.

    Returns
    -------
    ServedPolicy
        Policy that draws actions for an application.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a policy.
    """
    return ServedPolicy(read_policy(path))


class ServedPolicy:
    """Learned policy for an application: it draws actions for contexts in the application's own form.

    Threads may share a ``ServedPolicy``.

    Parameters
    ----------
    stored : StoredPolicy
        Content of a policy file. :func:`load_policy` reads the file and makes the ``ServedPolicy``.

    Attributes
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy or MixturePolicy
        Policy over encoded features.
    encoding : Encoding
        Encoding of contexts as features.
    names : list
        Names of the actions or labels in the log; empty for lists of actions.
    unseen : Counter
        Number of contexts so far with a value that the policy has not seen, by reason, such as "new value of 'city'".
    """

    def __init__(self, stored: StoredPolicy):
        self._stored = stored
        self.policy, self.encoding, self.names = stored.policy, stored.encoding, list(stored.encoding.names)
        self.unseen: Counter[str] = Counter()
        self._scores = None
        if isinstance(self.policy, LinearPolicy) and isinstance(self.encoding, TableEncoding):
            coef, intercept, features = self.policy.coef, self.policy.intercept, self.policy.features
            if features is None or has_fast_scores(features):
                self._scores = ContextScores(self.encoding, coef, intercept, features, self._report)
        self._rng, self._process = np.random.default_rng(), os.getpid()

    def __repr__(self) -> str:
        return f"ServedPolicy({self.policy})"

    def decide(self, context: Any, random_state: Any = None, explore: float | None = None) -> tuple[Any, Any]:
        """Draw an action for each context, and return it with its probability.

        Store the probability with the action: it is the propensity in your next log.

        Parameters
        ----------
        context : dict, list of dict, DataFrame, array or ActionLists
            One context as a dict, or several contexts. The form depends on the log that the policy was learned from:

            - Table: a dict with the log's feature columns as keys, a list of such dicts, or a DataFrame. None is a
              missing value. Missing and unknown values are handled as ``drcrm learn`` handled them.
            - Named features, as in dsjson and Vowpal Wabbit's text: a dict, in which a namespace is a dict, or a list
              of dicts. For lists of actions, the key ``_multi`` holds the list of the candidates' features.
            - Table of candidates (the mapping has ``list``): a dict with the features of the context and the key
              ``_multi``, the list of the candidates' features, or a list of such dicts. Or a DataFrame like the log.
            - Arrays: X, (m, d), or ActionLists.
        random_state : int or Generator, optional
            Seed. By default draws are independent, also in forked processes.
        explore : float in [0, 1], optional
            Share of uniform actions, by default the policy's own, ``policy.explore``. The certificate of ``learn`` and
            ``certify`` holds only for the policy's own share.

        Returns
        -------
        action : name, dict, int or array
            For one context: the action's name in the log, a dict of 0 and 1 for labels, or the place in the list, from
            0. For several contexts: an array (m,) of names or places, or (m, q) of labels in the order of ``names``.
        propensity : float or array (m,)
            Probability of the drawn action.

        Raises
        ------
        InputError
            If a context lacks a feature, or a value does not have the feature's type.

        Warns
        -----
        UserWarning
            If ``explore`` differs from the policy's own share, because no certificate then covers the decisions. And
            once for each feature with a value that the policy has not seen; ``unseen`` has the counts.
        """
        policy = self.policy if explore is None else self._exploring(explore)
        is_single = isinstance(context, Mapping)
        if is_single and self._scores is not None:
            scores = self._scores(context)
            if scores is not None:
                action, propensity = policy.actions.draw_one(scores, self._generator(random_state), policy.explore)
                return policy.actions.name_one(action, self.names), propensity
        if isinstance(context, pd.DataFrame) and not len(context):
            raise InputError("context has no rows, expected at least one")
        rng = self._generator(random_state)
        if is_single:
            has_map = not isinstance(policy, LinearPolicy) or policy.features is not None
            # on one row, the threads of trees only wait for each other
            with limit_threads(1, "openmp") if has_map else nullcontext():
                actions, propensities = policy.draw(self._encode([context]), rng)
            return policy.actions.name_one(actions[0], self.names), float(propensities[0])
        actions, propensities = policy.draw(self._encode(context), rng)
        return policy.actions.named(actions, self.names), propensities

    def to_json(self) -> str:
        """Return the policy as JSON, for applications in other languages.

        ``drcrm/logs/serving/policy.schema.json`` describes the content: coefficients, scaling, categories and names.

        Returns
        -------
        str
            Text of the JSON.

        Raises
        ------
        InputError
            If the log was not CSV or Parquet, or the policy has a feature map.
        """
        return json.dumps(export_policy(self._stored), ensure_ascii=False, allow_nan=False)

    def export(self, form: str = "json") -> str:
        """Return the policy for another system.

        Parameters
        ----------
        form : "json", "sql" or "python"
            A linear policy has the JSON of :meth:`to_json`, and a policy tree its splits as JSON. Both have a query
            and a function without imports.

        Returns
        -------
        str
            JSON, or source text.

        Raises
        ------
        InputError
            If the form cannot express the policy. The message has the reason.
        """
        check_choice(("json", "sql", "python"), form, "format")
        is_tree = tree_of(self.policy) is not None
        if form == "json" and not is_tree:
            return self.to_json()
        content = exports.export_tree(self._stored) if is_tree else exports.export_plain(self._stored)
        if form == "json":
            return json.dumps(content, ensure_ascii=False, allow_nan=False)
        if form == "python":
            return exports.tree_python(content) if is_tree else exports.linear_python(content)
        encoding: Any = self.encoding
        return (exports.tree_sql if is_tree else exports.linear_sql)(content, encoding.inputs)

    def _exploring(self, explore: float) -> LinearPolicy | MixturePolicy:
        """Return the policy with another share of uniform actions; warn that the certificate does not cover it."""
        policy = self.policy.with_exploration(explore)
        if policy.explore != self.policy.explore:
            warnings.warn(
                f"the certificate covers the share {self.policy.explore:g} of uniform actions, not {policy.explore:g}",
                stacklevel=3,
            )
        return policy

    def _report(self, unseen: Mapping[str, int]) -> None:
        """Count contexts with values that the policy has not seen, and warn of each reason once."""
        for reason, count in unseen.items():
            if reason not in self.unseen:
                warnings.warn(f"{reason} in a context; the policy has not seen it", stacklevel=4)
            self.unseen[reason] += count

    def _encode(self, contexts: Any) -> Features | ActionLists:
        """Return X of several contexts."""
        encoding = self.encoding
        try:
            if isinstance(encoding, TableEncoding | ListedTableEncoding) and not isinstance(contexts, pd.DataFrame):
                contexts = _frame_of(contexts, encoding)
            elif isinstance(encoding, HashedEncoding):
                decisions = [_decision_of(number, context, encoding) for number, context in _numbered(contexts)]
                contexts = contexts_of(decisions, encoding.interactions)
            if not isinstance(contexts, Contexts):
                contexts = encoding.read(number_rows(contexts))
            self._report(encoding.unseen(contexts.features))
            return encoding.contexts(contexts)
        except InputError:
            raise
        except (ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError) as error:  # of a value's class
            message = " ".join(f"{type(error).__name__} {error}".split())
            raise InputError(f"context has a value that is not a number, text, list or dict: {message}") from error

    def _generator(self, random_state: Any) -> np.random.Generator:
        """Return the generator of a seed; without one, the policy's own, which each process seeds anew."""
        if random_state is not None:
            return np.random.default_rng(random_state)
        if self._process != os.getpid():  # a forked process would repeat the draws of its parent
            self._rng, self._process = np.random.default_rng(), os.getpid()
        return self._rng


def _numbered(contexts: Any) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """Return contexts with their numbers; InputError unless they are dicts, at least one."""
    is_list = isinstance(contexts, Sequence) and not isinstance(contexts, str)
    if not is_list or not len(contexts) or not all(isinstance(context, Mapping) for context in contexts):
        raise InputError(f"context is of type {type(contexts).__name__}, expected a dict or a list of dicts")
    return list(enumerate(contexts))


def _frame_of(contexts: Any, encoding: TableEncoding | ListedTableEncoding) -> pd.DataFrame:
    """Return contexts, or the candidates of their lists, as a table whose columns keep the types of the values."""
    rows: list[Mapping[str, Any]] = []
    for number, context in _numbered(contexts):
        added = [context]
        if isinstance(encoding, ListedTableEncoding):
            with prefix_errors(f"context {number}"):
                added = [{**context, **action, encoding.list_id: number} for action in _actions_of(context)]
        if absent := [name for name in encoding.inputs for row in added if name not in row]:
            raise InputError(f"context {number} has no {absent[0]!r}, expected a value, or None if it is missing")
        rows += added
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in encoding.inputs})


def _actions_of(context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the features of each action in a context's list."""
    actions = context.get(LIST)
    if not (isinstance(actions, list) and actions and all(isinstance(action, dict) for action in actions)):
        raise InputError(f"{LIST} is missing or not a list of dicts, expected the features of each action")
    return actions


def _decision_of(number: int, context: Mapping[str, Any], encoding: HashedEncoding) -> Decision:
    """Return a context with named features, and its list of actions if the policy is over lists."""
    with prefix_errors(f"context {number}"):
        if encoding.actions.are_shared:
            return Decision(number, features(dict(context)))
        return Decision(number, features(dict(context)), [features(action) for action in _actions_of(context)])
