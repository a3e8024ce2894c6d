"""Runs and algorithms of an experiment, and what its tables and figures show."""

from drcrm.experiments.runs import all_runs, runs_shown, study_runs


def test_runs_of_tables_and_curve_are_distinct():
    experiment = {"datasets": ["b"], "seeds": 2, "replay_count": 4}
    assert all_runs(experiment) == [("b", 4, 0), ("b", 4, 1)]
    curve = {"datasets": ["b", "a"], "counts": [1, 4], "seeds": 1}
    expected = [("a", 1, 0), ("a", 4, 0), ("b", 1, 0), ("b", 4, 0), ("b", 4, 1)]
    assert all_runs(experiment | {"replay_curve": curve}) == expected


def test_seeds_by_data_set_are_shown_by_data_set():
    """Only for the data sets shown; an ablation has at most its own seeds."""
    experiment = {"datasets": ["a", "b"], "seeds": {"a": 3, "b": 7}, "replay_count": 4, "ablation": {"seeds": 5}}
    assert runs_shown(experiment, "tables") == {"seeds": {"a": 3, "b": 7}, "counts": [4]}
    assert runs_shown(experiment, "grid", ["b"]) == {"seeds": {"b": 7}, "counts": [4]}
    assert runs_shown(experiment, "ablation") == {"seeds": {"a": 3, "b": 5}, "counts": [4]}
    assert runs_shown({**experiment, "seeds": 2}, "ablation") == {"seeds": 2, "counts": [4]}


def test_runs_of_a_study_are_those_of_its_experiments():
    config = {"experiments": {"e": {"replay_count": 3}}, "studies": {"s": {"runs": {"e": {"a": 2}}}, "t": {}}}
    assert study_runs(config, "s") == [("e", "a", 3, 0), ("e", "a", 3, 1)]
    assert study_runs(config, "t") == []
