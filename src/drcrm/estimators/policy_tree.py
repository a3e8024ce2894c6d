"""Policy tree with scikit-learn's conventions: it is learned from a log, and people can read it."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils.validation import check_is_fitted

from drcrm.arrays.validation import append_constant, check_fraction, column_names
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import import_extra
from drcrm.estimators.fitted_policy import require_rows
from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logging_policy import SUPPORT
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.encoded_columns import CATEGORY, as_table, find_columns, read_table
from drcrm.policies.trees.search import LEAST_SHARE, THRESHOLDS, TreeSettings, fit_tree
from drcrm.policies.trees.tree import ActionTree

FOREST: dict[str, Any] = {"n_estimators": 50, "min_samples_leaf": 5, "random_state": 0}
ONE_HOT = 20  # largest number of categories with an indicator each for the cost model
TEXT_WIDTH, INCHES = 4, 0.12  # room for texts right of a tree, in levels; width of a character in a figure


class PolicyTree(BaseEstimator):
    """Policy tree: each leaf of a small tree has one action, and the tree maximises the doubly robust reward.

    The tree T maximises Σ_i Γ_i(T(x_i)) with Γ_i(a) = −ĉ(x_i, a) − 1(y_i = a) (c_i − ĉ(x_i, a))/p_i. The cost model ĉ
    of a context is fitted to other folds. An action without support is charged the largest logged cost. The search is
    exact for depths 1 and 2: see :func:`drcrm.optimal_tree`.

    Parameters
    ----------
    depth : int ≥ 1
        Largest number of splits above a leaf.
    thresholds : int ≥ 1
        Largest number of cuts of a column.
    least_share : float in [0, 1]
        Least share of the rows in a leaf.
    regressor : regressor of scikit-learn, optional
        Cost model of each action; by default extremely randomised trees.
    support : float in [0, 1]
        Threshold τ, below which the cost model is not trusted. An action has no support if its estimated probability
        under the logging policy is below τ/K. 0 trusts the model everywhere.

    Attributes
    ----------
    tree_ : ActionTree
        The fitted tree.
    n_features_in_ : int
        Number d of columns of X.
    feature_names_in_ : array (d,)
        Column names of X, if X is a DataFrame whose names are all strings.

    References
    ----------
    Athey & Wager 2021, Policy learning with observational data. Econometrica 89.
    Zhou, Athey & Wager 2023, Offline multi-action policy learning. Operations Research 71.
    """

    __metadata_request__fit = dict.fromkeys(("propensity", "cost", "groups", "n_actions"), True)

    def __init__(
        self,
        depth: int = DEPTH,
        *,
        thresholds: int = THRESHOLDS,
        least_share: float = LEAST_SHARE,
        regressor: Any = None,
        support: float = SUPPORT,
    ):
        self.depth, self.thresholds, self.least_share = depth, thresholds, least_share
        self.regressor, self.support = regressor, support

    def fit(
        self, X: Any, Y: Any, propensity: Any = None, cost: Any = None, groups: Any = None, n_actions: int | None = None
    ) -> Self:
        """Fit the tree to a log of contexts, actions, propensities and costs.

        Parameters
        ----------
        X : array, DataFrame or CSR (n, d)
            Context of each row; NaN is a missing value. In a DataFrame, columns may have numbers, booleans, times, and
            texts as categories.
        Y : int array (n,)
            Logged actions, from 0 to K − 1.
        propensity, cost : array (n,)
            Propensity and cost of each row. A cost is minus a reward.
        groups : array (n,), optional
            Ids of independent groups of rows, such as users. Folds keep groups together.
        n_actions : int, optional
            Number K of actions; by default one more than the largest in Y.

        Returns
        -------
        object
            The fitted estimator itself.

        Raises
        ------
        InputError
            If an argument, a parameter or a row is invalid.
        """
        settings = TreeSettings(self.depth, self.thresholds, self.least_share).check()
        check_fraction(self.support, "support")
        require_rows("PolicyTree.fit", Y=Y, propensity=propensity, cost=cost)
        table = as_table(X)
        log = BanditLog(_numeric_features(table), Y, propensity, cost, n_actions=n_actions).with_groups(groups)
        log.actions.require_classes("PolicyTree")
        regressor = ExtraTreesRegressor(**FOREST) if self.regressor is None else self.regressor
        scores = doubly_robust_scores(log, regressor, self.support)
        self.tree_: ActionTree = fit_tree(table, scores, settings)
        self.n_features_in_ = table.shape[1]
        if (names := column_names(table)) is not None:
            self.feature_names_in_ = names
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the action of each context.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d)
            Contexts with the columns of the fit. A category that the fit did not have counts as missing.

        Returns
        -------
        int array (m,)
            Actions from 0 to K − 1.
        """
        check_is_fitted(self)
        return self.tree_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each action: 1 for the action of the context's leaf, and 0 for others.

        Parameters
        ----------
        X : array, DataFrame or CSR (m, d)
            Contexts with the columns of the fit.

        Returns
        -------
        array (m, K)
        """
        return np.eye(self._fitted().n_actions)[self.predict(X)]

    def export_text(self, action_names: Sequence[Any] | None = None) -> str:
        """Return the tree as lines of text, with the share of the training rows in each leaf.

        Parameters
        ----------
        action_names : sequence of K names, optional
            By default the numbers of the actions.

        Returns
        -------
        str
        """
        return self._fitted().export_text(action_names)

    def plot(self, action_names: Sequence[Any] | None = None, ax: Any = None) -> Any:
        """Draw the tree with matplotlib.

        Parameters
        ----------
        action_names : sequence of K names, optional
            By default the numbers of the actions.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of a new figure, which is wide enough for all texts.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InputError
            If matplotlib is not installed.
        """
        tree = self._fitted()
        names = range(tree.n_actions) if action_names is None else action_names
        placed, texts = tree.placed_nodes(), []
        for node, _, _, condition, _ in placed:
            leaf = "" if node.children else f"{node.describe(names)}  ({100 * node.share:.3g} %)"
            texts.append(": ".join(filter(None, (condition, leaf))) or "all rows")
        end = max(depth for _, depth, *_ in placed) + TEXT_WIDTH
        if ax is None:
            width = INCHES * max(map(len, texts)) * end / TEXT_WIDTH
            ax = import_extra("matplotlib.pyplot", "pipeline").subplots(figsize=(max(6.4, width), 4.8))[1]
        ax.set(xlim=(-0.2, end), ylim=(0.5 - len(placed), 0.5))
        ax.set_axis_off()
        for place, ((node, depth, parent, condition, _), text) in enumerate(zip(placed, texts, strict=True)):
            if condition:
                ax.plot([depth - 1, depth - 1, depth], [-parent, -place, -place], color="gray", zorder=1)
            box = {"boxstyle": "round", "edgecolor": "gray", "facecolor": "white" if node.children else "lightgray"}
            ax.text(depth, -place, text, ha="left", va="center", bbox=box, zorder=2)
        return ax

    def _fitted(self) -> ActionTree:
        check_is_fitted(self)
        return self.tree_


def _numeric_features(table: Any) -> np.ndarray:
    """Return features for a cost model of the rows of a table, (n, d'): ranks, indicators, and a constant.

    Ranks do not depend on units, and have no huge values. A missing value has the middle rank and an indicator.
    """
    features = []
    columns = find_columns(table, np.zeros((len(table), 1)))  # without scores, categories are in alphabetical order
    for column, values in zip(columns, read_table(table, columns), strict=True):
        is_missing = np.isnan(values)
        features.append(pd.Series(values).rank(pct=True).fillna(0.5).to_numpy())
        if is_missing.any():
            features.append(is_missing.astype(float))
        if column.kind == CATEGORY and len(column.values) <= ONE_HOT:
            features += [(values == place).astype(float) for place in range(len(column.values))]
    return append_constant(np.column_stack(features))
