"""The algorithms of a mapping."""

from __future__ import annotations

import pytest

from drcrm.cli.candidates import DEFAULT, MAX_MAPPED, WITH_MAP, algorithm_entries
from drcrm.errors import InputError


def test_default_and_named_algorithms():
    assert [entry.name for entry in algorithm_entries(None, MAX_MAPPED)] == [DEFAULT, WITH_MAP]
    assert [entry.name for entry in algorithm_entries(None, MAX_MAPPED + 1)] == [DEFAULT]
    [entry] = algorithm_entries({"estimator": "CIPS", "label": "mine", "options": {"safe": False}}, 10)
    assert (entry.name, entry.label, entry.algorithm.options["safe"]) == ("CIPS", "mine", False)
    assert [entry.name for entry in algorithm_entries(["cips", "kl_dro_dr"], 10)] == ["cips", "kl_dro_dr"]


KL = {"estimator": "KLDRO", "parameter": "radius"}


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("kl_dor", "kl_dor"),
        ([], "algorithm"),
        ({"estimator": "CIPS", "gird": [1]}, "gird"),
        ({"grid": [1]}, "estimator"),
        ({"estimator": "KLDRO"}, "KLDRO"),
        ({"estimator": ["KLDRO"]}, "algorithm.estimator"),
        ({"estimator": "CIPS", "options": "safe"}, "algorithm.options"),
        ({"estimator": "CIPS", "options": {3: 4}}, "algorithm.options"),
        (KL | {"grid": 0.1}, "algorithm.grid"),
        (KL | {"grid": [True]}, "algorithm.grid"),
        ({"estimator": "CIPS", "options": {"features": {"nystroem; x": 3}}}, "features"),
        ({"estimator": "CIPS", "options": {"features": "nystroem"}}, "features"),
    ],
)
def test_invalid_entries_are_refused_with_their_key(algorithm, key):
    with pytest.raises(InputError, match=key):
        algorithm_entries(algorithm, 10)
