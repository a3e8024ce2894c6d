"""Runs and algorithms of an experiment, what its tables and figures show, and the parameters of its steps."""

import json

import pytest

from drcrm.paper.runs import (
    algorithm_entry,
    all_runs,
    fetch_parameters,
    home_of,
    mapping_of,
    options_of_entry,
    provenance_parameters,
    runs_shown,
    study_runs,
)


def test_runs_of_tables_and_curve_are_distinct():
    experiment = {"datasets": ["b"], "seeds": 2, "replay_count": 4}
    assert all_runs(experiment) == [("b", 4, 0), ("b", 4, 1)]
    curve = {"datasets": ["b", "a"], "counts": [1, 4], "seeds": 1}
    expected = [("a", 1, 0), ("a", 4, 0), ("b", 1, 0), ("b", 4, 0), ("b", 4, 1)]
    assert all_runs(experiment | {"replay_curve": curve}) == expected


def test_seeds_by_data_set_are_shown_by_data_set():
    """Only for the data sets shown."""
    experiment = {"datasets": ["a", "b"], "seeds": {"a": 3, "b": 7}, "replay_count": 4}
    assert runs_shown(experiment, "tables") == {"seeds": {"a": 3, "b": 7}, "counts": [4]}
    assert runs_shown(experiment, "grid", ["b"]) == {"seeds": {"b": 7}, "counts": [4]}
    assert runs_shown({**experiment, "seeds": 2}, "tables") == {"seeds": 2, "counts": [4]}


@pytest.mark.parametrize(
    ("changes", "own_files"),
    [
        ({"click_rates": [0.7, 0.2]}, set()),
        ({"logging_sharpness": 4}, {"logging"}),
        ({"logging": "uniform"}, {"logging"}),
        ({"heldout_fraction": 0.5}, {"split", "skyline", "logging"}),
    ],
)
def test_a_variant_shares_files_that_do_not_depend_on_its_changes(changes, own_files):
    options = {"split_unit": "row", "logging_fraction": 0.05, "heldout_fraction": 0.25}
    options |= {"logging": "crf", "logging_c": 1, "logging_sharpness": 1, "click_rates": [1, 0]}
    config = {"experiments": {"e": options, "e_v": {**options, **changes, "variant_of": "e"}}}
    assert {file for file in ("split", "skyline", "logging") if home_of(config, "e_v", file) == "e_v"} == own_files
    assert home_of(config, "e", "logging") == "e"


def test_runs_of_a_study_are_those_of_its_experiments():
    config = {"experiments": {"e": {"replay_count": 3}}, "studies": {"s": {"runs": {"e": {"a": 2}}}, "t": {}}}
    assert study_runs(config, "s") == [("e", "a", 3, 0), ("e", "a", 3, 1)]
    assert study_runs(config, "t") == []


LOOK = {"label": "My own", "colour": "#123456", "marker": "d", "group": "Yours"}
CONFIG = {
    "mirror": "folder",
    "datasets": {
        "toy": {"features": 3, "labels": 2, "sha256": {}, "label": "Toy", "paper": "scene", "differs": "a toy"}
    },
    "algorithms": {
        "poem": {"estimator": "POEM", "parameter": "variance_penalty", "grid": [1.0], "options": {}, **LOOK},
        "cips": {"estimator": "CIPS", "options": {"estimate": "snips"}, **LOOK},
        "trees": {"classifier": "trees", "options": {}, **LOOK},
    },
    "experiments": {
        "tiny": {
            "datasets": ["toy"],
            "algorithms": ["poem"],
            "variance_penalty_scale": "unit",
            "stopping": "scaled",
        }
    },
    "theory": {"datasets": ["toy"], "seed": 0},
    "studies": {"support": {"runs": {"tiny": {"toy": 1}}, "algorithms": ["cips"], "replays": 4}},
    "logs": {"shop": {"path": "log.csv", "action": "a", "algorithm": ["cips", "snips", "trees"]}},
}


def test_fetch_does_not_know_the_names_in_print():
    entry = {"features": 3, "labels": 2, "sha256": {}, "digests": {}}
    assert fetch_parameters(CONFIG, "toy", "origin.json") == entry


def test_the_scale_of_the_variance_penalty_concerns_poem_only():
    poem, cips = (algorithm_entry(CONFIG, {"experiment": "tiny", "algorithm": name}) for name in ("poem", "cips"))
    penalty = {"parameter": "variance_penalty", "variance_penalty_scale": "unit"}
    assert poem == {"estimator": "POEM", "grid": [1.0], "options": {}, **penalty}
    assert cips == {"estimator": "CIPS", "options": {"estimate": "snips"}}


def test_a_mapping_has_the_entries_of_the_configurations_estimators():
    """Names of shipped algorithms and of classifiers stay names."""
    entry = {"name": "cips", "label": "My own", "estimator": "CIPS", "options": {"estimate": "snips"}}
    mapping = json.loads(mapping_of(CONFIG, "shop"))
    assert mapping == {"action": "a", "algorithm": [entry, "snips", "trees"]}


def test_a_study_knows_its_algorithms_but_not_their_looks():
    entry = {"estimator": "CIPS", "options": {"estimate": "snips"}}
    assert options_of_entry(CONFIG, CONFIG["studies"]["support"]) == {"algorithms": {"cips": entry}, "replays": 4}


def test_provenance_is_of_the_experiment_with_its_data_sets_and_algorithms():
    experiment, datasets = CONFIG["experiments"]["tiny"], CONFIG["datasets"]
    tiny = {"experiment": experiment, "datasets": datasets, "algorithms": {"poem": CONFIG["algorithms"]["poem"]}}
    assert provenance_parameters(CONFIG, "tiny") == tiny
    theory = {"experiment": CONFIG["theory"], "datasets": datasets, "algorithms": {}}
    assert provenance_parameters(CONFIG, "theory") == theory
    study = provenance_parameters(CONFIG, "studies/support")
    assert study["runs"] == {"tiny": tiny}
    assert study["algorithms"] == options_of_entry(CONFIG, CONFIG["studies"]["support"])["algorithms"]
