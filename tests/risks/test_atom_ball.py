"""Balls of the reverse KL divergence with an atom against 50-digit values, identities and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest

from drcrm.errors import InputError
from drcrm.risks import PhiBall

VALUES = json.loads((Path(__file__).parents[1] / "data" / "anytime_values.json").read_text())


@pytest.mark.parametrize("entry", VALUES, ids=lambda entry: f"{entry['name']} {entry['delta']}")
@pytest.mark.parametrize(("unit", "shift"), [(1.0, 0.0), (1e-90, 0.0), (1e90, 0.0), (1.0, 50.0)])
def test_the_bound_has_the_reference_value(entry, unit, shift):
    z, count = unit * np.array(entry["z"]) + shift, np.array(entry["count"], dtype=float)
    ball = PhiBall("reverse_kl", float(entry["radius"]), atom=unit * entry["largest"] + shift)
    value, weights = ball(z, count)
    assert value == pytest.approx(unit * float(entry["bound"]) + shift, rel=1e-9)
    mass = 1 - weights.sum()
    assert mass >= -1e-12
    assert weights @ z + mass * ball.atom == pytest.approx(value, rel=1e-10)
    share = count / count.sum()
    assert share @ np.log(share / weights) == pytest.approx(ball.radius, rel=1e-9)


def test_an_atom_that_takes_no_mass_changes_nothing():
    z = -np.random.default_rng(0).exponential(1, 50)
    assert PhiBall("reverse_kl", 1e-4, atom=z.max())(z)[0] == PhiBall("reverse_kl", 1e-4)(z)[0]
    assert PhiBall("reverse_kl", 0.0, atom=9.0)(z)[0] == pytest.approx(z.mean())
    assert PhiBall("reverse_kl", 0.5, atom=0.0)(np.zeros(3))[0] == 0


def test_the_weights_are_the_gradient():
    z, ball, step = -np.random.default_rng(1).exponential(1, 7), PhiBall("reverse_kl", 0.5, atom=0.5), 1e-6
    numeric = [(ball(z + e)[0] - ball(z - e)[0]) / (2 * step) for e in step * np.eye(7)]
    assert ball(z)[1] == pytest.approx(numeric, abs=1e-8)
    assert ball(z)[1].sum() < 0.99


def test_what_an_atom_needs():
    with pytest.raises(InputError, match="costs must be at most the atom -1, got 0"):
        PhiBall("reverse_kl", 0.1, atom=-1)([0.0, -2.0])
    for divergence, atom in (("kl", 1.0), ("reverse_kl", np.inf)):
        with pytest.raises(InputError, match="atom must be a finite number, for reverse_kl only"):
            PhiBall(divergence, 0.1, atom=atom)
