"""Small models by boosted trees, which take half of the time of a command; ``all_trees`` has those that are shipped."""

from collections.abc import Iterator

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drcrm.diagnostics import estimated_propensities
from drcrm.logs import estimated_propensities as estimated
from drcrm.selection import learned_scores


def small_models() -> list:
    size = {"max_iter": 15, "random_state": 0}
    return [HistGradientBoostingRegressor(**size), {"nystroem": 20}, HistGradientBoostingClassifier(**size)]


SHIPPED = estimated.TREES["max_iter"], learned_scores.default_models


def use_trees(number: int, models) -> Iterator[None]:
    """Use a number of trees in the checks of propensities, and models in learned scores."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (estimated, estimated_propensities):
            patch.setitem(module.TREES, "max_iter", number)
        patch.setattr(learned_scores, "default_models", models)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_trees() -> Iterator[None]:
    yield from use_trees(4, small_models)


@pytest.fixture
def all_trees() -> Iterator[None]:
    yield from use_trees(*SHIPPED)
