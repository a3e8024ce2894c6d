"""The configuration: files, defaults, what the schema refuses, and the shipped experiments."""

from copy import deepcopy

import pytest
from fixtures.pipeline import ROOT, SCHEMA, SINGLE, SMALL, changed, fault_of
from fixtures.user_input import refusal

from drcrm.errors import InputError
from drcrm.paper import PAPER_ALGORITHMS
from drcrm.paper.config import complete, project_config, read_config
from drcrm.paper.runs import describe_log, options_of, shown_algorithms, uses_cost_model
from drcrm.selection.algorithms import shipped_algorithms

CURVE = {"datasets": ["toy"], "counts": [1, 16]}
YAML = {
    "twice": ("mirror: a\nexperiments: {}\nmirror: b\n", "line 3: mirror occurs twice, first in line 1"),
    "twice in a map": (
        "experiments:\n  demo: {replay_curve: {\n    counts: [1],\n    counts: [2]}}",
        "line 4: counts occurs twice, first in line 3",
    ),
    "missing": (None, "no such file or directory"),
    "empty": ("# a comment\n", "must have the keys of a configuration, but is empty or is not a map"),
    "list": ("- a\n", "must have the keys of a configuration, but is empty or is not a map"),
    "brackets": ("a: [b\nc: d\n", "line 2: not YAML: expected ',' or ']', but got ':'"),
    "tag": ("a: !!python/object:os.system b\n", "line 1: not YAML: could not determine a constructor for the tag "),
    "deep": ("[" * 600, "not YAML: "),
    "bytes": (b"a: \xff\n", "not YAML: 'utf-8' codec can't decode byte 0xff"),
}


@pytest.fixture(scope="module")
def shipped() -> dict:
    return project_config(ROOT)


class TestFiles:
    @pytest.mark.parametrize("name", YAML)
    def test_a_file_that_is_no_configuration_is_one_line(self, tmp_path, name):
        path, (text, expected) = tmp_path / "mine.yaml", YAML[name]
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert refusal(read_config, path).startswith(f"{path}: {expected}")

    def test_several_files_merge_and_each_unreadable_one_has_a_line(self, tmp_path):
        """A variant has the options of its experiment, unless it or its own entry changes them."""
        paths = [tmp_path / f"{name}.yaml" for name in "ab"]
        paths[0].write_text("experiments: {demo: {seeds: 2}, single_choice: {seeds: {satimage: 2}}}")
        paths[1].write_text("experiments: {demo: {seeds: 3}, single_choice_soft: {seeds: {letter: 1}}}")
        experiments = project_config(ROOT, paths)["experiments"]
        assert experiments["demo"]["seeds"] == 3
        assert experiments["single_choice"]["seeds"]["satimage"] == 2
        soft = experiments["single_choice_soft"]
        assert soft["seeds"] == {**experiments["single_choice"]["seeds"], "letter": 1}
        assert (soft["logging_sharpness"], soft["variant_of"]) == (0.25, "single_choice")
        assert soft["algorithms"] == experiments["single_choice"]["algorithms"]
        paths[0].write_text("")
        paths[1].unlink()
        with pytest.raises(InputError) as error:
            project_config(ROOT, paths)
        assert [line.split(":")[0] for line in error.value.args] == list(map(str, paths))


class TestDefaults:
    def test_options_of_an_experiment_are_filled_in(self):
        assert complete(changed("experiments.demo", {"datasets": ["toy"]}), SCHEMA)["experiments"]["demo"] == {
            "datasets": ["toy"],
            "seeds": 20,
            "replay_count": 4,
            "selection": ["clipped_snips", "snips", "ips"],
            "split_unit": "row",
            "logging": "crf",
            "logging_c": 0.1,
            "logging_sharpness": 1,
            "click_rates": [1, 0],
            "test_shift": None,
            "logging_fraction": 0.05,
            "heldout_fraction": 0.25,
            "absent_label_score": "logged",
            "variance_penalty_scale": "calibrated",
            "stopping": "scaled",
            "algorithms": list(PAPER_ALGORITHMS),
            "reference": "poem",
            "start": None,
            "alternative": "less",
            "rank_test": "signed_ranks",
        }

    def test_algorithms_without_a_look_get_a_colour_and_a_marker_of_their_own(self):
        added = {f"own{i}": {"estimator": "CIPS"} for i in range(20)}
        added["own3"] |= {"label": "My own", "colour": "#44AA99"}
        algorithms = complete({**SMALL, "algorithms": SMALL["algorithms"] | added}, SCHEMA)["algorithms"]
        assert len({(entry["colour"], entry["marker"]) for entry in algorithms.values()}) == len(algorithms)
        assert (algorithms["own3"]["label"], algorithms["own3"]["colour"]) == ("My own", "#44AA99")

    def test_text_counts_as_the_number_it_spells(self):
        """``--config`` passes nested values as text, and YAML reads 1e-5 as text."""
        texts = meant = SINGLE
        for key, text, value in (
            ("experiments.demo.seeds", "3", 3),
            ("experiments.choice.seeds", 3.0, 3),
            ("experiments.demo.replay_curve", {"datasets": ["toy"], "counts": ["1", "16"]}, CURVE),
            ("experiments.demo.logging_c", "1e-5", 1e-5),
            ("algorithms.kl.grid", [1.0, "1e-5"], [1.0, 1e-5]),
            ("datasets.toy.labels", "2", 2),
            ("datasets.classes.labels", ["0", "5"], [0, 5]),
            ("datasets.toy.drop_repeats", "true", True),
            ("datasets.toy.url", "https://123", "https://123"),
        ):
            texts, meant = changed(key, text, texts), changed(key, value, meant)
        assert complete(texts, SCHEMA) == complete(meant, SCHEMA)


class TestShippedExperiments:
    @pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.yaml")), ids=lambda path: path.stem)
    def test_configurations_of_the_documents_are_valid(self, path):
        assert path.stem in project_config(ROOT, [path])["experiments"]

    def test_algorithms_differ_in_look_and_label(self, shipped):
        entries = [shipped["algorithms"][name] for name in shipped_algorithms()]
        for key in ("label", "colour"):  # there are fewer markers than algorithms
            assert len({entry[key] for entry in entries}) == len(entries)

    @pytest.mark.parametrize(("options", "expected"), [({}, False), ({"safe": True}, True), ({"estimate": "dm"}, True)])
    def test_which_experiments_need_a_cost_model(self, shipped, options, expected):
        config = deepcopy(shipped)
        config["algorithms"]["own"] = {"estimator": "CIPS", "label": "own", "options": options}
        config["experiments"]["demo"] |= {"algorithms": ["own"], "selection": ["snips"]}
        assert uses_cost_model(config, "demo") == expected
        config["experiments"]["demo"]["selection"] = ["snips", "dr"]
        assert uses_cost_model(config, "demo")


class TestSchema:
    @pytest.mark.parametrize(
        ("key", "meant"),
        [
            ("experimentz", "experiments"),
            ("datasets.toy.feature", "features"),
            ("algorithms.kl.grids", "grid"),
            ("experiments.demo.sedes", "seeds"),
            ("experiments.demo.replay_curve.count", "counts"),
        ],
    )
    def test_an_unknown_key_is_an_error_with_the_closest_key(self, key, meant):
        place, _, name = key.rpartition(".")
        assert fault_of(key, 1).startswith(f"config: {place}: unknown key '{name}'; did you mean '{meant}'? (allowed: ")

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("run", [], "should be non-empty"),
            (
                "datasets.toy.labels",
                "two",
                "is not of type 'integer', 'array' (Number of labels, whose ids begin at 0, or",
            ),
            ("datasets.toy.url", "ftp://host", "does not match '^https?://' (Address of the folder with the files, "),
            ("datasets.toy.train", ["../a.svm"], "does not match"),
            ("datasets.toy.scale", None, "is not one of ['none', 'max_abs', 'standard']"),
            ("datasets.toy.sha256", {"a.svm": "12"}, "(64 digits of 0 to 9 and a to f.)"),
            ("algorithms.kl.colour", "red", "(Its colour in figures, as #RRGGBB.)"),
            ("algorithms.kl.grid", [0], "less than or equal to the minimum of 0"),
            ("experiments.demo", None, "not of type 'object'"),
            ("experiments.demo.seeds", 10001, "greater than the maximum of 10000"),
            ("experiments.demo.seeds", "3.5", "not of type 'integer', 'object'"),
            ("experiments.demo.seeds", True, "not of type 'integer', 'object'"),
            ("experiments.demo.replay_curve.counts", [0], "less than the minimum of 1"),
            ("studies", {"coverage": {"repetition": 1}}, "unknown key 'repetition'; did you mean 'repetitions'?"),
            ("logs", {"shop": {"path": 3}}, "is not of type 'string'"),
        ],
    )
    def test_a_value_out_of_range_is_an_error_with_its_key_and_what_is_allowed(self, key, value, expected):
        message = fault_of(key, value)
        assert message.startswith(f"config: {key}")
        assert expected in message

    @pytest.mark.parametrize(
        ("key", "entry"),
        [
            ("datasets.toy.embedded", "digits"),
            ("algorithms.own", {"label": "neither estimator nor classifier"}),
            ("algorithms.own", {"classifier": "trees", "estimator": "CIPS"}),
            ("algorithms.own", {"classifier": "trees", "parameter": "radius", "grid": [1]}),
            ("algorithms.own", {"estimator": "CIPS", "weights": "none"}),
        ],
    )
    def test_keys_that_exclude_each_other_are_an_error(self, key, entry):
        assert fault_of(key, entry, SINGLE).startswith(f"config: {'.'.join(key.split('.')[:2])}")

    @pytest.mark.parametrize(
        "key", ["experiments.all", "experiments.A b", "datasets.a/b", "algorithms.logging", "algorithms.cost_model"]
    )
    def test_names_that_would_collide_with_files_or_targets_are_an_error(self, key):
        section = key.split(".")[0]
        entry = next(iter(SMALL[section].values()))
        assert fault_of(key, entry).startswith(f"config: {section}: ")


class TestReplayCurveAndStart:
    def test_the_start_of_an_experiment_replaces_those_of_its_algorithms(self):
        algorithms = {
            "own": {"estimator": "KLDRO", "parameter": "radius", "grid": [1], "options": {"estimate": "dr"}},
            "moved": {"estimator": "CIPS", "options": {"start": "model", "tilt": 1}},
        }
        demo = {"datasets": ["toy"], "algorithms": ["moved", "own"], "variants": {"model": {"start": "model"}}}
        config = complete(
            {**SMALL, "algorithms": algorithms, "experiments": {"demo": demo | {"start": "zero"}}}, SCHEMA
        )
        assert options_of(config, config["experiments"]["demo"], "moved") == {"start": "zero", "tilt": 1}
        assert options_of(config, config["experiments"]["demo_model"], "own") == {"estimate": "dr", "start": "model"}
        assert (uses_cost_model(config, "demo"), uses_cost_model(config, "demo_model")) == (True, True)
        assert describe_log(config, "demo", ["toy"]) == "all fits start at Θ = 0"

    @pytest.mark.parametrize(("algorithms", "shown"), [(["cips", "kl"], ["kl"]), (["cips"], ["cips"])])
    def test_a_curve_has_only_algorithms_of_the_experiment(self, algorithms, shown):
        """A user's file may replace the algorithms, but not those of the curve."""
        experiment = {"datasets": ["toy"], "algorithms": algorithms, "replay_curve": CURVE | {"algorithms": ["kl"]}}
        config = complete(changed("experiments.demo", experiment), SCHEMA)
        assert shown_algorithms(config, "demo", "replay_count") == shown
