"""Builders that tests share: labelled contexts, a policy at random, what it logs of them, and names in print."""

from __future__ import annotations

import os

from drcrm.kernels import choose_kernels

choose_kernels(os.environ)  # as a step has them: before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from drcrm import BanditLog, ExponentialPolicy  # noqa: E402
from drcrm.experiments.simulation.replay import replay  # noqa: E402
from drcrm.reports.figures.style import Names  # noqa: E402

pytest_plugins = ["log_fixtures", "risk_fixtures", "shop_fixtures"]

LONGEST = ("test_workflow", "test_documents")

# The same code has the same examples; `pytest --hypothesis-profile=explore` draws others.
settings.register_profile("same", deadline=None, derandomize=True)  # by default an example that takes 0.2 s fails
settings.register_profile("explore", deadline=None)
settings.load_profile("same")


def pytest_collection_modifyitems(items):
    """What takes longest comes first: beside it, others run on the other cores."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def labelled():
    """Contexts at random, (n, features), the last feature constant, with labels that follow them and noise."""

    def make(seed: int = 0, n: int = 60, features: int = 4, labels: int = 2, density: float = 1.0):
        rng = np.random.default_rng(seed)
        present = rng.random((n, features - 1)) < density
        X = np.column_stack([rng.normal(size=(n, features - 1)) * present, np.ones(n)])
        return X, (X @ rng.normal(size=(features, labels)) + rng.logistic(size=(n, labels)) > 0).astype(np.uint8)

    return make


@pytest.fixture(scope="session")
def random_policy():
    """A policy whose coefficients are normal, their standard deviation ``scale``."""

    def make(seed: int = 0, features: int = 4, labels: int = 2, scale: float = 1.0) -> ExponentialPolicy:
        return ExponentialPolicy(scale * np.random.default_rng([seed, 1]).normal(size=(features, labels)))

    return make


@pytest.fixture(scope="session")
def logged(labelled, random_policy):
    """What a policy at random logs of labelled contexts."""

    def make(seed=0, n=60, features=4, labels=2, passes=4, scale=0.25) -> BanditLog:
        policy = random_policy(seed, features, labels, scale)
        return replay(policy, *labelled(seed, n, features, labels), passes, np.random.default_rng([seed, 2]))

    return make


@pytest.fixture(scope="session")
def parts():
    """The training and the held-out part of a log, a quarter of its rows."""

    def make(log: BanditLog, seed: int = 0) -> tuple[BanditLog, BanditLog]:
        held = np.random.default_rng(seed).random(len(log.Y)) < 0.25
        return log.recount(~held), log.recount(held)

    return make


@pytest.fixture(scope="session")
def names() -> Names:
    """Labels as a configuration has them, for some of the algorithms and data sets."""
    labels = {"cips": "CIPS", "poem": "POEM", "akl_crm": "aKL-CRM", "kl_dro": "KL-DRO", "chi2_dro": "χ²-DRO"}
    return Names({name: {"label": label} for name, label in labels.items()}, {"yeast": "Yeast"})
