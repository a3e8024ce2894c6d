"""The code of user-guide/extending.md runs, after the risk and the estimator of its example."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from drcrm.selection.registry.shipped_algorithms import as_algorithm
from drcrm.selection.registry.user_classes import make_regressor

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "user-guide/extending.md").read_text(encoding="utf-8")
EXAMPLE = (DOCS / "examples/own_risk.py").read_text(encoding="utf-8").split("# %%\n# Compare")[0]


@pytest.fixture
def page(monkeypatch):
    """The module of the page's code, importable as ``my_risks``."""
    module = ModuleType("my_risks")
    monkeypatch.setitem(sys.modules, "my_risks", module)
    for block in [EXAMPLE, *re.findall(r"```py\n(.*?)```", PAGE, re.S)]:
        exec(block, vars(module))
    return module


def test_the_risk_and_its_estimator_work(page):
    assert page.SemideviationRisk(0.5)([0.0, 4.0])[0] == 2 + 0.5 * 1
    Y = np.arange(60) % 2
    fitted = page.Semideviation(penalty=0.2).fit(np.ones((60, 1)), Y, propensity=np.full(60, 0.5), cost=-1.0 * Y)
    assert fitted.predict(np.ones((1, 1))) == [1]
    assert page.policy.step_ > 0
    assert page.off_policy_value(page.competitor, page.log) < page.costs.mean() - 0.2


@pytest.mark.usefixtures("page")
def test_a_configuration_accepts_the_algorithms():
    with_risk, classifier = (
        yaml.safe_load(re.search(rf"`(\{{{key}: .*?\}})`", PAGE)[1]) for key in ("estimator", "classifier")
    )
    criteria = as_algorithm(with_risk).variants()
    assert [risk.penalty for risk, _ in criteria] == [0.1, 0.5, 1]
    model = yaml.safe_load(re.search(r"`cost_model: (.*?)`", PAGE)[1])
    modelled = {**with_risk, "grid": [0.1], "options": {**with_risk["options"], "cost_model": model}}
    assert make_regressor(as_algorithm(modelled).settings.cost_model).min_samples_leaf == 20
    assert as_algorithm(classifier).classifier.min_samples_leaf == 20
