"""The message with which a function refuses its input."""

from collections.abc import Callable

import pytest

from drcrm.errors import InputError


def refusal(function: Callable, *arguments: object, **keywords: object) -> str:
    """Return the message of the InputError that a call raises, which must be one line."""
    with pytest.raises(InputError) as error:
        function(*arguments, **keywords)
    assert str(error.value).isprintable()
    return str(error.value)
