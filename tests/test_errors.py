"""Code that catches any error lets a MemoryError pass."""

import sys

import numpy as np
import pytest
from own_risks import EntropicRisk

from drcrm.arrays.stored_estimators import from_bytes, to_bytes
from drcrm.divergences.coherence import check_coherence
from drcrm.errors import InputError, refuse_errors
from drcrm.files import read_npz
from drcrm.logs.readers.npz_files import read_arrays
from drcrm.selection.registry.algorithms import Algorithm, check_algorithm


class GreedyRisk(EntropicRisk):
    """A risk that needs too much memory."""

    def evaluate(self, z, share, n, guess=None):
        raise MemoryError


class GreedyDivergence:
    curvature = 1.0

    def __getattr__(self, name):
        raise MemoryError


@pytest.mark.parametrize("error", [MemoryError("out of memory"), InputError("row 3 is invalid")])
def test_memory_errors_and_input_errors_pass(error):
    with pytest.raises(type(error)) as caught, refuse_errors("log.npz is damaged"):
        raise error
    assert caught.value is error


def test_other_errors_become_input_errors_with_their_reason():
    for error, reason in ((KeyError("rows"), "'rows'"), (ZeroDivisionError(), "ZeroDivisionError")):
        with pytest.raises(InputError, match=f"^log.npz is damaged: {reason}$"), refuse_errors("log.npz is damaged"):
            raise error


@pytest.mark.parametrize("case", ["npz log", "policy file", "stored", "storing", "user's risk", "user's divergence"])
def test_too_little_memory_is_not_called_damage(case, tmp_path, monkeypatch):
    np.savez(tmp_path / "log.npz", action=np.zeros(3, int))
    content = to_bytes({"a": 1}, "it")

    def fail(*arguments, **options):
        raise MemoryError

    if case == "storing":
        monkeypatch.setattr("skops.io.dumps", fail)
    if case == "stored":
        monkeypatch.setattr("skops.io.loads", fail)
    monkeypatch.setattr(np.lib.format, "read_array", fail)
    monkeypatch.setattr("drcrm.files._read_member", fail)
    monkeypatch.setitem(sys.modules, "own_greedy", sys.modules[__name__])
    calls = {
        "npz log": lambda: read_arrays(tmp_path / "log.npz"),
        "policy file": lambda: read_npz(tmp_path / "log.npz", ["action"]),
        "stored": lambda: from_bytes(content, dict, "it"),
        "storing": lambda: to_bytes({"a": 1}, "it"),
        "user's risk": lambda: check_algorithm(Algorithm("own_greedy:GreedyRisk", "temperature", [1.0])),
        "user's divergence": lambda: check_coherence(GreedyDivergence()),
    }
    with pytest.raises(MemoryError):
        calls[case]()
