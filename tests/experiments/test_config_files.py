"""Configuration files that are none, or that have two keys of one name, and what they have together."""

from __future__ import annotations

from pathlib import Path

import pytest

from drcrm.errors import InputError
from drcrm.experiments.config import project_config, read_config, read_configs

ROOT = Path(__file__).parents[2]


def said(path: Path, text: str) -> list[str]:
    """What is said of the project's configuration with a file beside it, line by line."""
    path.write_text(text)
    with pytest.raises(InputError) as error:
        project_config(ROOT, read_config(path), [path])
    return str(error.value).split("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mirror: a\nexperiments: {}\nmirror: b\n", "line 3: mirror occurs twice, first in line 1"),
        (
            "experiments:\n  mine: {datasets: [digits]}\n  'mine': {datasets: [digits]}\n",
            "line 3: experiments.mine occurs twice, first in line 2",
        ),
        (
            "experiments:\n  demo: {replay_curve: {\n    counts: [1],\n    counts: [2]}}",
            "line 4: experiments.demo.replay_curve.counts occurs twice, first in line 3",
        ),
        ('{"mirror": "a",\n "mirror": "b"}', "line 2: mirror occurs twice, first in line 1"),
    ],
)
def test_a_name_that_comes_twice_is_an_error_with_its_lines(tmp_path, text, expected):
    path = tmp_path / "mine.yaml"
    assert said(path, text) == [f"{path}, {expected}"]


def test_names_that_come_twice_and_other_errors_have_a_line_each(tmp_path):
    path = tmp_path / "mine.yaml"
    text = "mirror: a\nmirror: b\nrun: [demo]\nrun: [dmo]\nexperiments: {demo: {seeds: 0}}\n"
    first, second, third, fourth = said(path, text)
    assert first == f"{path}, line 2: mirror occurs twice, first in line 1"
    assert second == f"{path}, line 4: run occurs twice, first in line 3"
    assert third.startswith("config: run: unknown experiment 'dmo'; did you mean 'demo'?")
    assert fourth.startswith("config: experiments.demo.seeds: 0 is less than the minimum of 1")


def test_one_name_in_two_maps_is_none(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "datasets: {digits: &d {label: a}}\nalgorithms: {cips: {label: a}}\nexperiments: {demo: {seeds: 2}}\n"
    )
    merged, config = project_config(ROOT, read_config(path), [path])
    assert merged["experiments"]["demo"]["seeds"] == config["experiments"]["demo"]["seeds"] == 2
    assert "split_unit" not in merged["experiments"]["demo"]
    assert config["experiments"]["demo"]["split_unit"] == "row"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ": no such file or directory"),
        ("", ": nothing in it, expected those of a configuration"),
        ("# a comment\n", ": nothing in it, expected those of a configuration"),
        ("- a\n", ": no keys in it, expected those of a configuration"),
        ("a: [b\nc: d\n", ", line 2: not YAML: expected ',' or ']', but got ':'"),
        ("a:\n\t- b\n", ", line 2: not YAML: found character '\\t' that cannot start any token"),
        ("a: !!python/object:os.system b\n", ", line 1: not YAML: could not determine a constructor for the tag "),
        ("[" * 100_000, ": not YAML: "),
        ("a: 2020-13-40\n", ": not YAML: month must be in 1..12"),
        (b"a: \xff\n", ": not YAML: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(tmp_path, text, expected):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read_config(path)
    assert str(error.value).startswith(f"{path}{expected}")
    assert str(error.value).isprintable()


def test_several_files_merge_and_each_that_is_none_has_a_line(tmp_path):
    paths = [tmp_path / f"{name}.yaml" for name in "abc"]
    for path, text in zip(paths, ["a: {b: 1, c: [1, 2]}", "a: {c: [3], d: 4}", "a: {b: 5}"], strict=True):
        path.write_text(text)
    assert read_configs(paths) == {"a": {"b": 5, "c": [3], "d": 4}}
    paths[0].write_text("")
    paths[2].unlink()
    with pytest.raises(InputError) as error:
        read_configs(paths)
    assert [line.split(":")[0] for line in error.value.args] == [str(paths[0]), str(paths[2])]
