"""A user's weight works in estimators and configurations, and a faulty weight is refused."""

import numpy as np
import pytest
from fixtures.user_input import Tempered
from sklearn.base import clone

from drcrm import CIPS, Implicit
from drcrm.errors import InputError
from drcrm.selection.algorithms import Algorithm, check_algorithm
from drcrm.weights import Clipped, Shrunk, Smoothed, check_weight

OWN = {"weight": "fixtures.user_input:Tempered"}


def test_a_configuration_gives_the_first_parameter_a_grid():
    algorithm = Algorithm("CIPS", "weight.power", [0.5, 1.0], {**OWN, "weight.scale": 2.0})
    check_algorithm(algorithm)
    weights = [weight for _, weight in algorithm.variants()]
    assert [weight.get_params() for weight in weights] == [{"power": power, "scale": 2.0} for power in (0.5, 1.0)]
    assert algorithm.robust_end == "low"


@pytest.mark.parametrize(
    ("parameter", "options", "message"),
    [
        (None, OWN, "hyper-parameter of CIPS is none, expected weight.power and at least one value"),
        (
            "weight.power",
            {"weight": "fixtures.user_input:WrongSlope"},
            "the slope must be the derivative of the weight in log π",
        ),
        (
            "weight.largest_cost",
            {"weight": "fixtures.user_input:Frequencies"},
            "must be a subclass of drcrm.weights.Weight",
        ),
        ("weight.power", {"weight": "fixtures.user_input:Missing"}, "has no attribute 'Missing'"),
        ("weight.power", {**OWN, "weight.sale": 2}, "weight fixtures.user_input:Tempered has no parameter 'sale'"),
    ],
)
def test_a_weight_with_a_fault_is_an_error(parameter, options, message):
    with pytest.raises(InputError, match=message):
        check_algorithm(Algorithm("CIPS", parameter, [0.5] if parameter else [], options))


@pytest.mark.parametrize("weight", [Clipped(3), Clipped(), Implicit(0.1), Smoothed(0.5), Shrunk(2.0), Tempered(0.7)])
def test_weights_pass_their_check_and_are_cloned(weight):
    check_weight(weight)
    copy = clone(CIPS(weight=weight)).weight
    assert (type(copy), copy.get_params()) == (type(weight), weight.get_params())


def test_set_params_replaces_everything_that_depends_on_a_parameter():
    log_prob = np.log([0.9, 0.1])
    estimator = CIPS(weight=Clipped(2)).set_params(weight__clip=4)
    assert estimator.weight(log_prob.copy(), np.log([0.1, 0.1]))[0] == pytest.approx([4, 1])
    with pytest.raises(InputError, match="parameter of the weight"):
        Implicit(0.1).set_params(exponent=1)
