"""Code that catches any error lets a MemoryError pass."""

import pytest

from drcrm.errors import InputError, refuse_errors


@pytest.mark.parametrize("error", [MemoryError("out of memory"), InputError("row 3 is invalid")])
def test_memory_errors_and_input_errors_pass(error):
    with pytest.raises(type(error)) as caught, refuse_errors("log.npz is damaged"):
        raise error
    assert caught.value is error


def test_other_errors_become_input_errors_with_their_reason():
    for error, reason in ((KeyError("rows"), "'rows'"), (ZeroDivisionError(), "ZeroDivisionError")):
        with pytest.raises(InputError, match=f"^log.npz is damaged: {reason}$"), refuse_errors("log.npz is damaged"):
            raise error
