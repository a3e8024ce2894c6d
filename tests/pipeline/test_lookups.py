"""What results say of the options that they were made with."""

from __future__ import annotations

import json

import pytest

from drcrm.pipeline.lookups import digest, made_otherwise

SETTINGS = {"experiment": {"seeds": 2, "logging_c": 0.1}, "datasets": {"toy": {"labels": 3}}, "algorithms": {}}


@pytest.fixture
def made(tmp_path):
    """The provenance of results that were made with the settings."""
    path = tmp_path / "provenance.json"
    path.write_text(json.dumps({"options": SETTINGS["experiment"], "config": digest(SETTINGS)}))
    return path


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"experiment": {"seeds": 3, "logging_c": 0.1}}, "seeds"),
        ({"experiment": {"seeds": 3, "replay_count": 4}}, "logging_c, replay_count, seeds"),
        ({"datasets": {"toy": {"labels": 4}}}, "settings of its data sets or algorithms"),
    ],
)
def test_what_differs_is_named(made, changed, said):
    assert made_otherwise(made, SETTINGS | changed) == said


@pytest.mark.parametrize("content", ["", "[]", "{}", "3"])
def test_without_a_record_nothing_is_said(tmp_path, content):
    path = tmp_path / "provenance.json"
    assert made_otherwise(path, SETTINGS) == ""
    path.write_text(content)
    assert made_otherwise(path, SETTINGS) == ""
