"""Configuration files with two keys of one name."""

from __future__ import annotations

import pytest

from drcrm.errors import InputError
from drcrm.pipeline.config_files import check_names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: {c: 1}\na: 2\n", "line 3: a is there twice, first in line 1"),
        (
            "experiments:\n  mine: {}\n  other: {}\n  'mine': {}\n",
            "line 4: experiments.mine is there twice, first in line 2",
        ),
        ("a:\n- {b: 1,\n   b: 2}\n", "line 3: a.0.b is there twice, first in line 2"),
        ('{"a": 1,\n "a": 2}', "line 2: a is there twice, first in line 1"),
        ("a: [b\n", "not YAML: while parsing a flow sequence"),
    ],
)
def test_a_name_that_comes_twice_is_an_error_with_its_lines(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        check_names(path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)


def test_one_name_in_two_maps_is_none(tmp_path):
    path = tmp_path / "mine.yaml"
    for text in ("", "a: {b: 1}\nc: &c {b: 1}\nd: *c\ne: &e [*e, {b: 1}, {b: 2}]\n"):
        path.write_text(text)
        check_names(path)
