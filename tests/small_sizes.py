"""Small sizes of what takes half of the time of a command; ``shipped_sizes`` restores those that are shipped."""

from collections.abc import Iterator

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drcrm.cost_models import missing_cells
from drcrm.logs import context_trees
from drcrm.logs import estimated_propensities as estimated
from drcrm.logs.diagnostics.propensities import estimates, logging_policies
from drcrm.selection import learned_scores


def small_models() -> list:
    size = {"max_iter": 6, "random_state": 0}
    return [HistGradientBoostingRegressor(**size), {"nystroem": 20}, HistGradientBoostingClassifier(**size)]


SHIPPED = estimated.TREES["max_iter"], estimated.MIN_CONTEXTS, logging_policies.MIN_CONTEXTS, missing_cells.TREES
SHIPPED_MODELS = learned_scores.default_models
SMALL = 4, 10**9, 10**9, 1


def use_sizes(trees: int, audited_contexts: int, searched_rows: int, trees_of_cells: int, models) -> Iterator[None]:
    """Set trees of propensities, contexts from which audits use them, and rows that are searched for a change.

    And the trees that search an action for missing cells, and the models of scores.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (estimated, estimates):
            patch.setitem(module.TREES, "max_iter", trees)
        patch.setitem(context_trees.FOREST, "n_estimators", 5 + trees)
        patch.setattr(estimated, "MIN_CONTEXTS", audited_contexts)
        patch.setattr(logging_policies, "MIN_CONTEXTS", searched_rows)
        patch.setattr(missing_cells, "TREES", trees_of_cells)
        patch.setattr(learned_scores, "default_models", models)
        yield


@pytest.fixture(scope="session", autouse=True)
def small_sizes() -> Iterator[None]:
    yield from use_sizes(*SMALL, small_models)


@pytest.fixture
def shipped_sizes() -> Iterator[None]:
    yield from use_sizes(*SHIPPED, SHIPPED_MODELS)


@pytest.fixture
def audited_by_trees() -> Iterator[None]:
    yield from use_sizes(SMALL[0], SHIPPED[1], *SMALL[2:], small_models)


@pytest.fixture
def searched_for_changes() -> Iterator[None]:
    """Search for changes of the logging policy, which takes more time than the rest of a command."""
    yield from use_sizes(*SMALL[:2], SHIPPED[2], SMALL[3], small_models)
