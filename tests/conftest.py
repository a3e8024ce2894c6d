"""Shared fixtures: labelled contexts, policies and logs, display names, and small sizes of what takes long."""

import gc
import os
from importlib import import_module

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")  # boosted trees of two processes on two cores would wait for each other

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drcrm import BanditLog, ExponentialPolicy
from drcrm.cost_models import missing_cells
from drcrm.logs import estimated_propensities as estimated
from drcrm.logs.diagnostics import propensity_trees
from drcrm.paper.reports.plan import Names
from drcrm.paper.simulation import replay
from drcrm.selection import learned_scores

pytest_plugins = ["fixtures.user_logs", "fixtures.user_input"]

LONGEST = ["test_workflow", "test_own_workflow", "test_stress", "test_blocks", "test_matrix", "test_own_logs"]
LONGEST += ["test_generated_pages", "test_evaluation", "test_guardrails", "test_opened_log", "test_theory"]
LONGEST += ["test_learned_scores", "test_limits", "test_cluster", "test_exports", "test_propensity_trees", "test_learn"]
LONGEST += ["test_studies", "test_site"]

# The default examples depend only on the code. `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)  # slow examples must not fail
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("same")


def pytest_collection_modifyitems(items):
    """Start the longest test files first, so that other files run on the other cores meanwhile."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_collection_finish():
    """Exclude what exists now from garbage collections, which take a twentieth of the time otherwise."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def study():
    """Return a function that imports a module of studies/ by name."""
    return import_module


@pytest.fixture(scope="session")
def labelled():
    """Return a function that draws contexts (n, features), the last feature constant, and noisy labels."""

    def make(seed: int = 0, n: int = 60, features: int = 4, labels: int = 2, density: float = 1.0):
        rng = np.random.default_rng(seed)
        present = rng.random((n, features - 1)) < density
        X = np.column_stack([rng.normal(size=(n, features - 1)) * present, np.ones(n)])
        return X, (X @ rng.normal(size=(features, labels)) + rng.logistic(size=(n, labels)) > 0).astype(np.uint8)

    return make


@pytest.fixture(scope="session")
def random_policy():
    """Return a function that draws a policy with normal coefficients of standard deviation ``scale``."""

    def make(seed: int = 0, features: int = 4, labels: int = 2, scale: float = 1.0) -> ExponentialPolicy:
        return ExponentialPolicy(scale * np.random.default_rng([seed, 1]).normal(size=(features, labels)))

    return make


@pytest.fixture(scope="session")
def logged(labelled, random_policy):
    """Return a function that draws the log of a random policy on labelled contexts."""

    def make(seed=0, n=60, features=4, labels=2, passes=4, scale=0.25) -> BanditLog:
        policy = random_policy(seed, features, labels, scale)
        return replay(policy, *labelled(seed, n, features, labels), passes, np.random.default_rng([seed, 2]))

    return make


@pytest.fixture(scope="session")
def parts():
    """Return a function that splits a log into training rows and held-out rows, a quarter of all."""

    def make(log: BanditLog, seed: int = 0) -> tuple[BanditLog, BanditLog]:
        is_heldout = np.random.default_rng(seed).random(len(log.Y)) < 0.25
        return log.recount(~is_heldout), log.recount(is_heldout)

    return make


@pytest.fixture(scope="session")
def names() -> Names:
    """Return display names for some algorithms and data sets."""
    labels = {"cips": "CIPS", "poem": "POEM", "akl_crm": "aKL-CRM", "kl_dro": "KL-DRO", "chi2_dro": "χ²-DRO"}
    return Names({name: {"label": label} for name, label in labels.items()}, {"yeast": "Yeast"})


def small_models() -> list:
    size = {"max_iter": 6, "random_state": 0}
    return [HistGradientBoostingRegressor(**size), {"nystroem": 20}, HistGradientBoostingClassifier(**size)]


SHIPPED = estimated.TREES["max_iter"], estimated.MIN_CONTEXTS, propensity_trees.LEAST_SEARCHED, missing_cells.TREES
SHIPPED_MODELS = learned_scores.default_models
SMALL = 4, 10**9, 10**9, 1


def use_sizes(trees: int, audited_contexts: int, searched_rows: int, trees_of_cells: int, models) -> Iterator[None]:
    """Set trees of propensities, contexts from which audits use them, and rows that are searched for a change.

    And the trees that search an action for missing cells, and the models of scores.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(estimated.TREES, "max_iter", trees)
        patch.setitem(propensity_trees.OVERLAP_TREES, "max_iter", trees)
        patch.setitem(estimated.FOREST, "n_estimators", 5 + trees)
        patch.setattr(estimated, "MIN_CONTEXTS", audited_contexts)
        patch.setattr(propensity_trees, "LEAST_SEARCHED", searched_rows)
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
