"""What rules look up in a configuration and tell the steps, and what results say of the options they were made with."""

from __future__ import annotations

import json

import pytest

from drcrm.experiments.lookups import (
    all_runs,
    classifier_options,
    digest,
    fetch_options,
    fit_options,
    heldout_options,
    learned_options,
    made_otherwise,
    runs_shown,
)

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


def test_fetch_is_told_what_a_data_set_has_and_nothing_else():
    """Labels as their number or as those to keep; no option for what is not given."""
    given = {"features": 3, "labels": 2, "sha256": {}, "drop_repeats": False, "embedded": "digits"}
    expected = ["--embedded", "digits", "--features", "3", "--labels", "2"]
    assert fetch_options({"datasets": {"toy": given}}, "toy") == expected
    files = {"train": ["a b.svm"], "test": ["c.svm"], "url": "http://x", "rows": [4, 2], "scale": "standard"}
    given = {"features": 3, "labels": [4, 7], "sha256": {"c.svm": "12"}, "drop_repeats": True, **files}
    assert fetch_options({"datasets": {"toy": given}}, "toy") == [
        *("--train", "a b.svm", "--test", "c.svm", "--features", "3", "--keep-labels", "4", "7", "--url", "http://x"),
        *("--rows", "4", "2", "--scale", "standard", "--sha256", "c.svm=12", "--drop-repeats"),
    ]


def test_fetch_is_told_where_a_row_has_one_class():
    given = {"features": 3, "labels": [4, 7], "sha256": {}, "drop_repeats": False, "train": ["a"], "test": ["b"]}
    expected = ["--train", "a", "--test", "b", "--features", "3", "--keep-labels", "4", "7", "--actions", "single"]
    words = fetch_options({"datasets": {"toy": given | {"actions": "single"}}}, "toy")
    assert sorted(words) == sorted(expected)
    assert words[words.index("--actions") + 1] == "single"


def test_what_fits_and_classifiers_are_told_apart():
    config = {"algorithms": {"cips": {"estimator": "CIPS"}, "peer": {"classifier": "trees", "weights": "none"}}}
    files = {"cips": "a.npz", "peer": "b.npz"}
    assert learned_options(config, files) == ["--fit", "cips=a.npz", "--classifier", "peer=b.npz"]
    assert learned_options(config, {"peer": "b.npz"}) == ["--classifier", "peer=b.npz"]
    assert classifier_options(config, "peer") == ["--classifier", "trees", "--weights", "none"]


def test_seeds_are_shown_by_data_set_where_they_are_given_so():
    """Of the data sets that are shown; of the ablation no more than it has."""
    experiment = {"datasets": ["a", "b"], "seeds": {"a": 3, "b": 7}, "replay_count": 4, "ablation": {"seeds": 5}}
    assert runs_shown(experiment, "tables") == {"seeds": {"a": 3, "b": 7}, "counts": [4]}
    assert runs_shown(experiment, "grid", ["b"]) == {"seeds": {"b": 7}, "counts": [4]}
    assert runs_shown(experiment, "ablation") == {"seeds": {"a": 3, "b": 5}, "counts": [4]}
    assert runs_shown({**experiment, "seeds": 2}, "ablation") == {"seeds": 2, "counts": [4]}


def test_a_share_is_held_out_of_rows_alone():
    assert heldout_options({"split_unit": "row", "heldout_fraction": 0.25}) == [
        *("--split-unit", "row", "--heldout-fraction", "0.25")
    ]
    assert heldout_options({"split_unit": "context", "heldout_fraction": 0.25}) == ["--split-unit", "context"]


def test_fit_is_told_the_unit_of_poems_grid_alone():
    algorithms = {
        "poem": {"estimator": "POEM", "parameter": "variance_penalty", "grid": [1e-6, 1.0], "options": {}},
        "cips": {"estimator": "CIPS", "options": {"clip": None}},
    }
    experiments = {"tiny": {"variance_penalty_scale": "unit", "stopping": "scaled"}}
    config = {"algorithms": algorithms, "experiments": experiments}
    assert fit_options(config, "tiny", "poem") == [
        *("--estimator", "POEM", "--parameter", "variance_penalty", "--grid", "1e-06", "1.0"),
        *("--variance-penalty-scale", "unit", "--stopping", "scaled"),
    ]
    assert fit_options(config, "tiny", "cips") == [
        *("--estimator", "CIPS", "--options", '{"clip": null}', "--stopping", "scaled")
    ]


def test_runs_of_tables_and_curve_are_each_once():
    experiment = {"datasets": ["b"], "seeds": 2, "replay_count": 4}
    assert all_runs(experiment) == [("b", 4, 0), ("b", 4, 1)]
    curve = {"datasets": ["b", "a"], "counts": [1, 4], "seeds": 1}
    assert all_runs(experiment | {"replay_curve": curve}) == [
        *(("a", 1, 0), ("a", 4, 0), ("b", 1, 0), ("b", 4, 0), ("b", 4, 1))
    ]
