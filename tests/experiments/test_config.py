"""The configuration: defaults, and an error for everything that is wrong, with the key's path and what is allowed."""

from __future__ import annotations

import math
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import norm
from snakemake.utils import update_config

from drcrm.divergences import DIVERGENCES
from drcrm.errors import InputError
from drcrm.experiments import lookups
from drcrm.experiments.config import complete, left_out, project_config, shipped_config
from drcrm.experiments.lookups import all_algorithms, all_runs, is_classifier, run_algorithms, shown_algorithms
from drcrm.reports.roles import PAPER_ALGORITHMS

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8"))
SHIPPED = shipped_config(ROOT)

SMALL = {
    "datasets": {
        "toy": {"train": ["a.svm"], "test": ["b.svm"], "features": 3, "labels": 2},
        "digits": {"embedded": "digits", "features": 64, "labels": 10},
    },
    "algorithms": {
        "cips": {"estimator": "CIPS"},
        "kl": {"estimator": "KLDRO", "parameter": "radius", "grid": [0.1, 1]},
        "akl": {"estimator": "AdaptiveKLCRM", "parameter": "radius", "grid": [0.1], "options": {"variance": "sum"}},
    },
    "experiments": {"demo": {"datasets": ["toy"], "replay_curve": {"datasets": ["toy"], "counts": [1, 4]}}},
}
MISSING = object()

SOUND = {
    "datasets": SMALL["datasets"]["toy"],
    "algorithms": {"estimator": "CIPS"},
    "experiments": {"datasets": ["toy"]},
}
NAMES = "this name does not fit (Lower-case letters, digits and underscores, a letter first.)"


def documented(path: Path) -> dict:
    """The shipped configuration with what a file of docs/ adds."""
    config = deepcopy(SHIPPED)
    update_config(config, yaml.safe_load(path.read_text(encoding="utf-8")))
    return complete(config, SCHEMA)


def changed(key: str, value, config: dict = SMALL) -> dict:
    """A configuration, the small one, with the value of a dotted key set, or removed."""
    config = deepcopy(config)
    *folders, last = key.split(".")
    at = config
    for folder in folders:
        at = at[folder]
    if value is MISSING:
        del at[last]
    else:
        at[last] = value
    return config


def of_runs(**changes) -> dict:
    """A study of finished runs that is right but for the changes."""
    return {
        "support": {"runs": {"demo": {"toy": 1}}, "algorithms": ["cips"], "sharpness": [1], "replays": 1, **changes}
    }


def fault(key: str, value) -> str:
    """What is said of it, which is one line."""
    with pytest.raises(InputError) as error:
        complete(changed(key, value), SCHEMA)
    message = str(error.value)
    assert "\n" not in message
    return message


class TestDefaults:
    def test_of_the_whole(self):
        config = complete(SMALL, SCHEMA)
        assert config["mirror"] is None
        assert config["run"] == ["demo"]
        assert config["theory"] == {"datasets": [], "repetitions": 2000, "seed": 0}
        assert config["datasets"]["toy"] == SMALL["datasets"]["toy"] | {
            "actions": "labels",
            "drop_repeats": False,
            "sha256": {},
            "label": "toy",
        }
        look = {"label": "cips", "group": "Yours", "colour": "#882255", "marker": "*"}
        assert config["algorithms"]["cips"] == {"estimator": "CIPS", "options": {}, **look}

    def test_of_an_experiment(self):
        assert complete(changed("experiments.demo", {"datasets": ["toy"]}), SCHEMA)["experiments"]["demo"] == {
            "datasets": ["toy"],
            "seeds": 20,
            "replay_count": 4,
            "selection": ["clipped_snips", "snips", "ips"],
            "split_unit": "row",
            "logging_c": 0.1,
            "logging_sharpness": 1,
            "click_rates": [1, 0],
            "logging_fraction": 0.05,
            "heldout_fraction": 0.25,
            "absent_label_score": "logged",
            "variance_penalty_scale": "calibrated",
            "stopping": "scaled",
            "algorithms": ["cips"],  # of the paper's seven, those that are there
        }

    def test_given_values_stay(self):
        given = {"datasets": ["toy"], "seeds": 3, "logging_c": 10, "algorithms": ["kl"], "selection": ["ips"]}
        demo = complete(changed("experiments.demo", given), SCHEMA)["experiments"]["demo"]
        assert {key: demo[key] for key in given} == given

    def test_the_input_is_not_changed_and_defaults_are_not_shared(self):
        before = deepcopy(SMALL)
        config = complete(SMALL, SCHEMA)
        assert before == SMALL
        config["datasets"]["toy"]["sha256"]["a.svm"] = "changed"
        assert complete(SMALL, SCHEMA)["datasets"]["toy"]["sha256"] == {}

    def test_completing_twice_changes_nothing(self):
        once = complete(SHIPPED, SCHEMA)
        assert complete(once, SCHEMA) == once


class TestShipped:
    def test_the_experiments(self):
        config = complete(SHIPPED, SCHEMA)
        expected = {"demo", "sample", "paper", "paper_text", "reference_code", "reference_replay"}
        assert expected <= set(config["experiments"])
        assert all(config["experiments"][name]["algorithms"] == list(PAPER_ALGORITHMS) for name in expected - {"demo"})
        assert config["experiments"]["demo"]["algorithms"] == [*PAPER_ALGORITHMS, "kl_dro_dr"]
        beyond, sample = (config["experiments"][name] for name in ("beyond", "sample"))
        large = config["experiments"]["beyond_large"]
        same = ("replay_count", "split_unit", "logging_c", "logging_fraction", "heldout_fraction")
        assert all(
            beyond[option] == large[option] == sample[option] for option in same
        )  # so that differences are paired
        assert beyond["datasets"] + large["datasets"] == sample["datasets"]
        assert beyond["seeds"] == sample["seeds"]
        assert all(beyond[option] == large[option] for option in ("selection", "stopping"))
        assert set(large["algorithms"]) < set(beyond["algorithms"])
        assert not {"kl_crm", "akl_crm_sum", "chi2_dro"} & set(beyond["algorithms"])
        estimated = {name for name in config["algorithms"] if not is_classifier(config, name)}
        assert estimated & set(SHIPPED["algorithms"]) - set(PAPER_ALGORITHMS) < set(beyond["algorithms"])
        assert estimated - set(PAPER_ALGORITHMS) < set(all_algorithms(config, "beyond"))
        assert config["run"] == ["demo"]
        assert config["mirror"] is None
        assert set(config["experiments"]["demo"]["datasets"]) == {"digits"}
        assert config["experiments"]["paper"]["split_unit"] == "context"
        assert config["experiments"]["paper_text"]["variance_penalty_scale"] == "unit"
        assert config["experiments"]["reference_replay"]["logging_c"] == 10
        assert all(config["experiments"][name]["stopping"] == "public_code" for name in {*expected, "beyond"})

    @pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.yaml")), ids=lambda path: path.stem)
    def test_what_the_documents_add(self, path):
        assert path.stem in documented(path)["experiments"]

    def test_the_radii_of_divergences_compare(self):
        """A ball of radius φ''(1) ε adds √(2εV) to the mean, whatever the divergence; a tail of normal costs too."""
        algorithms = documented(ROOT / "docs/divergences.yaml")["algorithms"]
        radii = np.array(algorithms["kl_dro_dr"]["grid"])
        for name in ("kl", "chi2", "squared_hellinger", "reverse_kl"):
            (of,) = [each for each in algorithms.values() if each["options"].get("divergence") == name]
            assert of["grid"] == pytest.approx(DIVERGENCES[name]().curvature * radii, rel=1e-2)
        shares = np.array(algorithms["dr_cvar"]["grid"])
        assert norm.pdf(norm.ppf(shares)) / shares == pytest.approx(np.sqrt(2 * radii), rel=2e-2)

    def test_the_algorithms_and_their_grids(self):
        def decades(low, high, step=1.0):
            return [10 ** (low + step * k) for k in range(round((high - low) / step) + 1)]

        expected = {
            "cips": ("CIPS", None, []),
            "poem": ("POEM", "variance_penalty", decades(-6, 0)),
            "kl_crm": ("KLCRM", "temperature", decades(-3, 4)),
            "akl_crm": ("AdaptiveKLCRM", "radius", decades(-6, 0)),
            "akl_crm_sum": ("AdaptiveKLCRM", "radius", decades(-6, 0)),
            "kl_dro": ("KLDRO", "radius", decades(-5, 0, 0.5)),
            "chi2_dro": ("Chi2DRO", "radius", decades(-5, 0, 0.5)),
        }
        algorithms = complete(SHIPPED, SCHEMA)["algorithms"]
        assert set(expected) == set(PAPER_ALGORITHMS)
        assert list(algorithms)[: len(PAPER_ALGORITHMS)] == list(PAPER_ALGORITHMS)
        for name, (estimator, parameter, grid) in expected.items():
            found = algorithms[name]
            assert (found["estimator"], found.get("parameter")) == (estimator, parameter)
            assert found.get("grid", []) == pytest.approx(grid, rel=1e-3)
            assert found["options"].keys() <= {"variance"}
        variances = [algorithms[name]["options"]["variance"] for name in ("akl_crm", "akl_crm_sum")]
        assert variances == ["mean", "sum"]

    @pytest.mark.parametrize(("options", "expected"), [({}, False), ({"safe": True}, True), ({"estimate": "dm"}, True)])
    def test_which_experiments_need_a_cost_model(self, options, expected):
        config = complete(SHIPPED, SCHEMA)
        config["algorithms"]["own"] = {"estimator": "CIPS", "label": "own", "options": options}
        config["experiments"]["demo"] |= {"algorithms": ["own"], "selection": ["snips"]}
        assert lookups.uses_cost_model(config, "demo") == expected

    def test_the_algorithms_beyond_the_papers(self):
        algorithms = complete(SHIPPED, SCHEMA)["algorithms"]
        modelled = {"start": "model", "tilt": "auto"}
        doubly = {"estimate": "dr", **modelled}
        expected = {
            "norm_poem": ("POEM", "variance_penalty", {"estimate": "snips"}),
            "log_smoothing": ("LogSmoothing", "smoothing", {}),
            "log_smoothing_anchored": ("LogSmoothing", "ridge", {"smoothing": 0.01, "start": "logging"}),
            "implicit_exploration": ("CIPS", "weight.exploration", {"weight": "implicit"}),
            "implicit_exploration_anchored": (
                "CIPS",
                "ridge",
                {"weight": "implicit", "weight.exploration": 0.01, "start": "logging"},
            ),
            "exponential_smoothing": ("CIPS", "weight.exponent", {"weight": "smoothed"}),
            "exponential_smoothing_anchored": (
                "CIPS",
                "ridge",
                {"weight": "smoothed", "weight.exponent": 0.8, "start": "logging"},
            ),
            "log_sum_exp": ("LogSumExp", "temperature", {}),
            "weighted_likelihood": ("WeightedLikelihood", "sharpness", {}),
            **{name: ("CIPS", None, {"estimate": name, **modelled}) for name in ("snips", "dm", "dr")},
            **{f"kl_dro_{name}": ("KLDRO", "radius", {"estimate": name, **modelled}) for name in ("snips", "dr")},
            "kl_dro_dr_plain": ("KLDRO", "radius", {**doubly, "support": 0, "context_effects": False}),
            "kl_dro_dr_support": ("KLDRO", "radius", {**doubly, "context_effects": False}),
            "kl_dro_dr_map": ("KLDRO", "radius", {**doubly, "features": {"nystroem": 300}}),
            "kl_dro_dr_safe": ("KLDRO", "radius", {**doubly, "safe": True}),
            "kl_dro_dr_auto": ("KLDRO", None, {"radius": "auto", "estimate": "dr", **modelled}),
            "chi2_dro_dr": ("Chi2DRO", "radius", {"estimate": "dr", **modelled}),
        }
        found = {name: algorithms[name] for name in SHIPPED["algorithms"] if name not in PAPER_ALGORITHMS}
        peers = {name: found.pop(name) for name in [*found] if "classifier" in found[name]}
        assert {name: (each["classifier"], each.get("weights")) for name, each in peers.items()} == {
            "rewarded_rows": ("linear", None),
            "rewarded_rows_trees": ("trees", None),
            "importance_weighted": ("linear", "inverse_propensity"),
            "importance_weighted_trees": ("trees", "inverse_propensity"),
        }
        assert {
            name: (each["estimator"], each.get("parameter"), each["options"]) for name, each in found.items()
        } == expected
        shipped = [algorithms[name] for name in SHIPPED["algorithms"]]
        assert len({(each["colour"], each["marker"]) for each in shipped}) == len(shipped)
        assert len({each["label"] for each in algorithms.values()}) == len(algorithms)

    def test_the_schema_refuses_experiments_with_the_names_of_all_rules(self):
        text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
        rules = re.findall(r"^\s*(?:rule|checkpoint|use rule \w+ as) +(\w+)(?: with)?:", text, re.MULTILINE)
        refused = SCHEMA["properties"]["experiments"]["propertyNames"]["not"]["enum"]
        studies = [f"{name}_study" for name in SCHEMA["properties"]["studies"]["properties"]]
        assert sorted(refused) == sorted([*rules, *studies, "all"])


SINGLE = {
    "datasets": SMALL["datasets"] | {"classes": {**SMALL["datasets"]["toy"], "actions": "single"}},
    "algorithms": SMALL["algorithms"] | {"peer": {"classifier": "linear"}},
    "experiments": {"demo": {"datasets": ["toy"]}, "choice": {"datasets": ["classes"], "algorithms": ["cips", "peer"]}},
}


class TestOneActionOfK:
    def test_the_experiments_of_it(self):
        """They differ in the sharpness of π0 and in the clicks alone; a change of one is none of the others."""
        config = complete(SHIPPED, SCHEMA)
        told = {
            "single_choice": (1, [1, 0]),
            "single_choice_soft": (0.25, [1, 0]),
            "single_choice_sharp": (4, [1, 0]),
            "single_choice_clicks": (1, [0.7, 0.2]),
            "single_choice_clicks_soft": (0.25, [0.7, 0.2]),
            "single_choice_clicks_sharp": (4, [0.7, 0.2]),
        }
        experiments = {name: dict(config["experiments"][name]) for name in told}
        assert {name: (e.pop("logging_sharpness"), e.pop("click_rates")) for name, e in experiments.items()} == told
        plain, beyond = experiments["single_choice"], config["experiments"]["beyond"]
        assert all(each == plain for each in experiments.values())
        assert plain["seeds"] == dict.fromkeys(plain["datasets"], 20) | {"letter": 5}
        assert (plain["logging_c"], plain["stopping"]) == (1, "public_code")
        assert plain["selection"] == beyond["selection"]
        peers = [name for name in config["algorithms"] if is_classifier(config, name)]
        same = {"kl_dro_dr_support"}  # as kl_dro_dr, which has context effects with label vectors alone
        assert sorted(plain["algorithms"]) == sorted([*{*beyond["algorithms"]} - same, *peers])
        _, other = project_config(ROOT, {"experiments": {"single_choice": {"seeds": {"satimage": 2}}}}, [])
        assert other["experiments"]["single_choice"]["seeds"]["satimage"] == 2
        assert other["experiments"]["single_choice_soft"]["seeds"]["satimage"] == 20

    def test_seeds_by_data_set(self):
        """Those of data sets that the experiment has not are of no account; text counts as the number it spells."""
        seeds = {"toy": "2", "digits": 3, "classes": 4}
        given = {"datasets": ["toy", "digits"], "seeds": seeds, "replay_count": 1}
        config = complete(changed("experiments.demo", given, SINGLE), SCHEMA)
        expected = [("digits", 1, 0), ("digits", 1, 1), ("digits", 1, 2), ("toy", 1, 0), ("toy", 1, 1)]
        assert all_runs(config["experiments"]["demo"]) == expected
        assert run_algorithms(config, "demo", "toy", 1, 1) == ["cips"]

    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            (
                "choice.click_rates",
                [0.2, 0.7],
                "choice.click_rates: 0.7 for wrong actions is not below 0.2 for right ones",
            ),
            (
                "choice.click_rates",
                [0.5, 0.5],
                "choice.click_rates: 0.5 for wrong actions is not below 0.5 for right ones",
            ),
            ("choice.click_rates", [1.5, 0], "choice.click_rates.0: 1.5 is greater than the maximum of 1"),
            ("demo.click_rates", [0.7, 0.2], "demo.click_rates: they are of one action of K, 'toy' has label vectors"),
            (
                "choice.absent_label_score",
                "half",
                "choice.absent_label_score: half is of label vectors, 'classes' has one action of K",
            ),
            (
                "demo.algorithms",
                ["cips", "peer"],
                "demo.algorithms: 'peer' classifies one action of K, 'toy' has label vectors",
            ),
            (
                "choice.ablation",
                {"algorithms": ["peer"], "starts": ["zero"]},
                "choice.ablation.algorithms: 'peer' is a classifier, which has no start",
            ),
            ("choice.logging_sharpness", 0, "choice.logging_sharpness: 0 is less than or equal to the minimum of 0"),
            ("choice.seeds", {"toy": 3}, "choice.seeds: no number for classes, expected one for each data set"),
            ("choice.seeds", {"classes": 0}, "choice.seeds.classes: 0 is less than the minimum of 1"),
        ],
    )
    def test_what_does_not_fit_its_actions(self, key, value, said):
        with pytest.raises(InputError) as error:
            complete(changed(f"experiments.{key}", value, SINGLE), SCHEMA)
        assert len(error.value.args) == 1
        assert str(error.value).startswith(f"config: experiments.{said}")

    def test_of_a_mixed_experiment_the_other_data_set_is_named(self):
        given = {"datasets": ["classes", "toy"], "algorithms": ["cips"], "click_rates": [0.7, 0.2]}
        with pytest.raises(InputError, match=r"they are of one action of K, 'toy' has label vectors$"):
            complete(changed("experiments.choice", given, SINGLE), SCHEMA)

    def test_the_theory_is_of_label_vectors(self):
        with pytest.raises(InputError, match=r"theory\.datasets: 'classes' has one action of K, expected label vec"):
            complete(SINGLE | {"theory": {"datasets": ["classes"]}}, SCHEMA)

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"label": "x"}, ": has label; expected either estimator or classifier"),
            ({"classifier": "trees", "estimator": "CIPS"}, ": has classifier, estimator; expected either"),
            (
                {"classifier": "trees", "parameter": "radius", "grid": [1]},
                ": has classifier, parameter, grid; expected",
            ),
            ({"classifier": "forest"}, ".classifier: 'forest' is not one of ['linear', 'trees']"),
            ({"estimator": "CIPS", "weights": "none"}, ": 'classifier' is a dependency of 'weights'"),
        ],
    )
    def test_an_estimator_or_a_classifier(self, entry, said):
        with pytest.raises(InputError) as error:
            complete(changed("algorithms.peer", entry, SINGLE), SCHEMA)
        assert str(error.value).startswith(f"config: algorithms.peer{said}")


class TestFaults:
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
    def test_a_typo_in_a_key(self, key, meant):
        message = fault(key, 1)
        assert message.startswith(f"config: {key}: unknown key; did you mean '{meant}'? (allowed: ")

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            (
                "experiments.demo.datasets",
                ["toi"],
                "unknown data set 'toi'; did you mean 'toy'? (allowed: toy, d",
            ),
            ("experiments.demo.algorithms", ["kll"], "unknown algorithm 'kll'; did you mean 'kl'?"),
            ("experiments.demo.replay_curve.datasets", ["x"], "unknown data set 'x' (allowed: toy, digits)"),
            (
                "experiments.demo.replay_curve.algorithms",
                ["kll"],
                "unknown algorithm 'kll'; did you mean 'kl'? (allowed: cips, kl, akl)",
            ),
            ("run", ["dmo"], "unknown experiment 'dmo'; did you mean 'demo'? (allowed: demo)"),
            ("datasets.toy.sha256", {"c.bz2": "0" * 64}, "unknown file 'c.bz2' (allowed: a.svm, b.svm)"),
        ],
    )
    def test_an_unknown_name(self, key, value, message):
        assert fault(key, value).startswith(f"config: {key}: {message}")

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("mirror", 3, "not of type 'string', 'null'"),
            ("run", [], "should be non-empty"),
            ("datasets", {}, "should be non-empty"),
            ("datasets.toy.features", 0, "less than the minimum of 1"),
            ("datasets.toy.features", 3.0, "not of type 'integer'"),
            ("datasets.toy.labels", 0, "less than the minimum of 1"),
            ("datasets.toy.labels", "two", "ids to keep"),
            ("datasets.toy.labels", [1, 1], "non-unique"),
            (
                "datasets.toy.url",
                "ftp://host",
                "'ftp://host' does not fit (Address of the folder with the files, http:// or https://",
            ),
            ("datasets.toy.train", ["../a.svm"], "does not fit (The name of a file, without a path or a space.)"),
            ("datasets.toy.rows", [1], "too short"),
            ("datasets.toy.drop_repeats", "yes", "not of type 'boolean'"),
            ("datasets.toy.scale", "max", "is not one of ['none', 'max_abs', 'standard']"),
            ("datasets.toy.scale", None, "is not one of ['none', 'max_abs', 'standard']"),
            ("datasets.toy.sha256", {"a.svm": "12"}, "'12' does not fit (64 digits of 0 to 9 and a to f.)"),
            ("datasets.toy.paper", "mnist", "is not one of ['scene', 'yeast', 'rcv1_topics', 'tmc2007']"),
            ("algorithms.kl.colour", "red", "'red' does not fit (Its colour in figures, as #RRGGBB.)"),
            ("algorithms.kl.marker", "oo", "does not fit (Its marker in figures, one of matplotlib's.)"),
            ("algorithms.kl.label", "", "should be non-empty"),
            ("algorithms.kl.grid", [], "should be non-empty"),
            ("algorithms.kl.grid", [0], "less than or equal to the minimum of 0"),
            ("algorithms.kl.grid", [math.nan], "not of type 'number'"),
            ("algorithms.kl.grid", [math.inf], "not of type 'number'"),
            ("algorithms.akl.options", {"variance": "median"}, "variance is 'median', expected 'mean' or 'sum'"),
            ("experiments.demo", None, "not of type 'object'"),
            ("experiments.demo.datasets", [], "should be non-empty"),
            ("experiments.demo.datasets", ["toy", "toy"], "non-unique"),
            ("experiments.demo.seeds", 0, "less than the minimum of 1"),
            ("experiments.demo.seeds", 10001, "greater than the maximum of 10000"),
            ("experiments.demo.seeds", "five", "not of type 'integer'"),
            ("experiments.demo.seeds", 5.0, "not of type 'integer'"),
            ("experiments.demo.seeds", True, "not of type 'integer'"),
            ("experiments.demo.replay_count", 0, "less than the minimum of 1"),
            (
                "experiments.demo.selection",
                ["snip"],
                "unknown held-out score 'snip'; did you mean 'snips'? (allowed: ips, ",
            ),
            ("experiments.demo.selection", [3], "not of type 'string'"),
            ("experiments.demo.split_unit", "rows", "is not one of ['row', 'context']"),
            ("experiments.demo.logging_c", 0, "less than or equal to the minimum of 0"),
            ("experiments.demo.logging_c", math.inf, "not of type 'number'"),
            ("experiments.demo.logging_fraction", 0, "less than or equal to the minimum of 0"),
            ("experiments.demo.logging_fraction", 1, "greater than or equal to the maximum of 1"),
            ("experiments.demo.heldout_fraction", 0, "less than or equal to the minimum of 0"),
            ("experiments.demo.heldout_fraction", 1.0, "greater than or equal to the maximum of 1"),
            ("experiments.demo.heldout_fraction", math.nan, "not of type 'number'"),
            ("experiments.demo.absent_label_score", "coin", "is not one of ['logged', 'half']"),
            ("experiments.demo.variance_penalty_scale", 1, "is not one of ['calibrated', 'unit']"),
            ("experiments.demo.ablation", {"algorithms": ["cips"], "starts": []}, "should be non-empty"),
            ("experiments.demo.replay_curve.counts", [0], "less than the minimum of 1"),
            ("experiments.demo.replay_curve.seeds", 0, "less than the minimum of 1"),
        ],
    )
    def test_a_wrong_type_or_a_value_out_of_range(self, key, value, expected):
        message = fault(key, value)
        assert message.startswith(f"config: {key.removesuffix('.options')}")
        assert expected in message

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            ("datasets", "config: 'datasets' is a required property"),
            ("datasets.toy.features", "config: datasets.toy: 'features' is a required property"),
            (
                "datasets.toy.train",
                "config: datasets.toy: has test, features, labels; expected either train",
            ),
            ("algorithms.kl.grid", "config: algorithms.kl: 'grid' is a dependency of 'parameter'"),
            ("experiments.demo.datasets", "config: experiments.demo: 'datasets' is a required property"),
            ("experiments.demo.replay_curve.counts", "config: experiments.demo.replay_curve: 'counts' is a required"),
        ],
    )
    def test_a_missing_key(self, key, message):
        assert fault(key, MISSING).startswith(message)

    def test_embedded_and_files_exclude_each_other(self):
        message = fault("datasets.toy.embedded", "digits")
        assert message.startswith("config: datasets.toy: has ")
        assert message.endswith("; expected either train and test or embedded")

    @pytest.mark.parametrize(
        ("theory", "message"),
        [
            ({"datasets": ["toi"]}, "theory.datasets: unknown data set 'toi'; did you mean 'toy'?"),
            ({"datasets": ["toy", "toy"]}, "theory.datasets: ['toy', 'toy'] has non-unique elements"),
            ({"repetitions": 0}, "theory.repetitions: 0 is less than the minimum of 1"),
            ({"seed": -1}, "theory.seed: -1 is less than the minimum of 0"),
            ({"seeds": 2}, "theory.seeds: unknown key; did you mean 'seed'?"),
        ],
    )
    def test_of_the_theory(self, theory, message):
        assert fault("theory", theory).startswith(f"config: {message}")

    @pytest.mark.parametrize(
        ("study", "message"),
        [
            ({"poise": {}}, "studies.poise: unknown key"),
            ({"coverage": {}}, "studies.coverage: 'repetitions' is a required property"),
            ({"coverage": {"repetitions": 0}}, "studies.coverage.repetitions: 0 is less than the minimum of 1"),
            (of_runs(runs={"dema": {"toy": 1}}), "studies.support.runs: unknown experiment"),
            (of_runs(runs={"demo": {"toi": 1}}), "studies.support.runs.demo: unknown data"),
            (of_runs(algorithms=["cip"]), "studies.support.algorithms: unknown"),
            (of_runs(runs={"demo": {"toy": -1}}), "studies.support.runs.demo.toy: -1 is"),
        ],
    )
    def test_of_the_studies(self, study, message):
        assert fault("studies", study).startswith(f"config: {message}")

    @pytest.mark.parametrize("name", ["all", "fetch", "fit", "figure", "theory", "theory_table", "coverage_study"])
    def test_an_experiment_named_like_a_rule(self, name):
        message = fault(f"experiments.{name}", {"datasets": ["toy"]})
        assert message.startswith(f"config: experiments.{name}: this name is taken, one of all, fetch, ")

    @pytest.mark.parametrize("name", ["logging", "skyline", "log", "cost_model"])
    def test_an_algorithm_named_like_what_is_not_learned(self, name):
        assert "this name is taken" in fault(f"algorithms.{name}", {"estimator": "CIPS"})

    @pytest.mark.parametrize("name", ["..", ".", "-x", "a\t", "x" * 256])
    def test_files_that_no_folder_should_have(self, name):
        for part in ("train", "test"):
            message = fault(f"datasets.toy.{part}", [name])
            assert message.startswith(f"config: datasets.toy.{part}: {name!r} is not the name of a file: no path, no")

    @pytest.mark.parametrize("section", ["datasets", "algorithms", "experiments"])
    def test_a_name_ends_where_its_pattern_does(self, section):
        assert fault(f"{section}.a\n", SOUND[section]) == f"config: {section}.a\\n: {NAMES}"

    @pytest.mark.parametrize("key", [1, None, True, (1, 2)])
    def test_a_key_that_is_no_text(self, key):
        for place, around in (("datasets.toy", SMALL["datasets"]["toy"]), ("algorithms.kl.options", {})):
            message = fault(place, {**around, key: 1})
            assert message == f"config: {place}.{key}: the key {key!r} is not text"

    def test_lists_without_end(self):
        endless = []
        endless.append(endless)
        assert fault("run", endless) == "config: run.0.0.0: more than 20 keys deep"

    @pytest.mark.parametrize("section", ["datasets", "algorithms", "experiments"])
    def test_names_that_no_file_should_have(self, section):
        assert fault(f"{section}.A b", SOUND[section]) == f"config: {section}.A b: {NAMES}"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"parameter": "temperature"},
                "the hyper-parameter of KLDRO is temperature and 2 values, expected radius and",
            ),
            ({"estimator": "CIPS"}, "the hyper-parameter of CIPS is radius and 2 values, expected none"),
            ({"estimator": "KLCRM"}, "the hyper-parameter of KLCRM is radius and 2 values, expected temperature and"),
            ({"options": {"variance": "sum"}}, "KLDRO has no parameter 'variance', expected radius"),
            ({"options": {"radius": 1}}, "'radius' is the hyper-parameter of KLDRO, no option"),
            ({"options": {"estimate": "sips"}}, "estimate is 'sips', expected one of 'ips', 'snips', 'dr', 'dm'"),
            ({"options": {"weight": "implict"}}, "weight is 'implict', expected one of 'clipped', 'implicit', 'smo"),
            ({"options": {"weight": "shrunk"}}, "the weight 'shrunk' needs weight.shrinkage"),
            ({"options": {"weight": ["shrunk"]}}, "weight is ['shrunk'], expected one of 'clipped', 'implicit', "),
            (
                {"options": {"weight": "shrunk", "weight.shrinkage": -1}},
                "shrinkage is -1, expected a finite number > 0",
            ),
            ({"options": {"weight.shrinkage": 1}}, "KLDRO has no parameter 'weight.shrinkage', expected radius"),
            ({"options": {"start": "there"}}, "start is 'there', expected one of 'zero', 'logging', 'model', 'imit"),
            ({"options": {"start": ["zero"]}}, "start is ['zero'], expected one of 'zero', 'logging', 'model', 'imit"),
            ({"options": {"tilt": "steep"}}, "tilt is 'steep', expected 'auto' or a finite number ≥ 0"),
            ({"options": {"tilt": -1}}, "tilt is -1, expected 'auto' or a finite number ≥ 0"),
            (
                {"parameter": "weight.exponent", "options": {"weight": "smoothed"}},
                "KLDRO needs radius",
            ),
            (
                {"estimator": "CIPS", "parameter": "weight.exponent", "options": {"weight": "implicit"}},
                "the hyper-parameter of CIPS is weight.exponent and 2 values, expected weight.exploration and at least",
            ),
            (
                {
                    "estimator": "CIPS",
                    "parameter": "weight.exponent",
                    "options": {"weight": "smoothed"},
                    "grid": [0.5, 2],
                },
                "exponent is 2, expected at most 1",
            ),
            (
                {"estimator": "LogSmoothing", "parameter": "smoothing", "options": {"estimate": "dr"}},
                "estimate is 'dr', expected one of 'ips', 'dm'",
            ),
            (
                {"estimator": "WeightedLikelihood", "parameter": "sharpness", "options": {"estimate": "snips"}},
                "estimate is 'snips', expected one of 'ips'",
            ),
            (
                {
                    "estimator": "WeightedLikelihood",
                    "parameter": "sharpness",
                    "options": {"weight": "implicit", "weight.exploration": 1},
                },
                "WeightedLikelihood has no weight: it is a likelihood of the actions",
            ),
            ({"estimator": "PhiDRO"}, "PhiDRO needs divergence"),
            (
                {"estimator": "PhiDRO", "options": {"divergence": "kull"}},
                "divergence is 'kull', expected one of kl, chi2, squared_hellinger",
            ),
            ({"estimator": "CVaRDRO", "parameter": "alpha", "grid": [3]}, "alpha is 3, expected at most 1"),
            ({"options": {"confidence": 0.5}}, "confidence is 0.5, expected a number above ½ and below 1"),
            ({"estimator": "KLDR"}, "unknown estimator 'KLDR'; did you mean 'KLDRO'? (allowed: CIPS, POEM, KLCRM, "),
            ({"estimator": "no.where:Risk"}, "estimator no.where:Risk: No module named 'no'"),
            *[
                ({"options": {"features": features}}, f"features is {features!r}, expected one of nystroem, random_tr")
                for features in ({"nystroem; x": 3}, {}, "nystroem", ["nystroem"], {"nystroem": 3, "random_trees": 3})
            ],
            ({"options": {"features": {"nystroem": 0}}}, "features.nystroem is 0, expected a whole number"),
            ({"options": {"features": {"random_trees": True}}}, "features.random_trees is True, expected a whole"),
        ],
    )
    def test_what_does_not_fit_its_estimator(self, change, message):
        algorithm = SMALL["algorithms"]["kl"] | change
        assert fault("algorithms.kl", algorithm).startswith(f"config: algorithms.kl: {message}")

    @pytest.mark.parametrize(
        "algorithm",
        [
            {"estimator": "KLDRO", "options": {"radius": "auto"}},
            {"estimator": "Chi2DRO", "options": {"radius": "auto", "confidence": 0.9, "estimate": "dr"}},
            {"estimator": "PhiDRO", "parameter": "radius", "grid": [0.1], "options": {"divergence": "reverse_kl"}},
            {"estimator": "PhiDRO", "options": {"divergence": {"cressie_read": 3}, "radius": "auto"}},
            {"estimator": "PhiDRO", "parameter": "radius", "grid": [0.1], "options": {"divergence": "total_variation"}},
            {"estimator": "CVaRDRO", "parameter": "alpha", "grid": [0.5, 1], "options": {"estimate": "dr"}},
        ],
    )
    def test_balls_of_divergences(self, algorithm):
        config = {**SMALL, "algorithms": {**SMALL["algorithms"], "own": algorithm}}
        assert complete(config, SCHEMA)["algorithms"]["own"]["options"] == algorithm["options"]


class TestSeveralFaults:
    def test_each_has_a_line_in_the_order_of_the_configuration(self):
        config = {
            "mirror": 3,
            "run": ["demo", "dmo"],
            "datasets": {
                **SMALL["datasets"],
                "A b": SMALL["datasets"]["toy"],
                "odd": {**SMALL["datasets"]["toy"], "train": ["-x", "c.svm"], "labels": 0, "sha256": {"c": "0" * 64}},
            },
            "algorithms": {
                **SMALL["algorithms"],
                "near": {"estimator": "KLDR", "parameter": "radius", "grids": [1]},
                "other": {"estimator": "CIPS", "colour": "red", "options": {"estimate": "sips"}},
            },
            "experiments": {
                "demo": {
                    "datasets": ["toi", "toi"],
                    "seeds": 0,
                    "algorithms": ["cips", 3, "kll"],
                    "selection": ["snip"],
                    "replay_curve": {"datasets": ["x"], "counts": [0, 1]},
                    "ablation": {"algorithms": ["akll"], "starts": ["nought"]},
                    "sedes": 2,
                },
                "empty": {"algorithms": ["poem"]},
            },
            "theory": {"datasets": ["toi"]},
        }
        with pytest.raises(InputError) as error:
            complete(config, SCHEMA)
        lines = str(error.value).split("\n")
        assert [re.match(r"config: (.*?): ", line)[1] for line in lines] == [
            "mirror",
            "run",
            "datasets.A b",
            "datasets.odd.train",
            "datasets.odd.labels",
            "datasets.odd.sha256",
            "algorithms.near",
            "algorithms.near.grids",
            "algorithms.other",
            "algorithms.other.colour",
            "experiments.demo.datasets",
            "experiments.demo.datasets",
            "experiments.demo.seeds",
            "experiments.demo.algorithms",
            "experiments.demo.algorithms.1",
            "experiments.demo.selection",
            "experiments.demo.replay_curve.datasets",
            "experiments.demo.replay_curve.counts.0",
            "experiments.demo.ablation.algorithms",
            "experiments.demo.ablation.starts",
            "experiments.demo.sedes",
            "experiments.empty",
            "experiments.empty.algorithms",
            "theory.datasets",
        ]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("datasets", {}),
            ("datasets", MISSING),
            ("datasets", 3),
            ("datasets.toy", None),
            ("datasets.toy.train", ["../a.svm"]),
            ("algorithms", {}),
            ("algorithms.kl", None),
            ("algorithms.kl.grid", [0]),
            ("algorithms.kl.estimater", "KLDRO"),
            ("experiments", MISSING),
            ("experiments", []),
            ("experiments.demo", []),
            ("experiments.demo.datasets", "toy"),
            ("experiments.demo.ablation", {"algorithms": ["cips"]}),
            ("run", []),
            ("theory", 3),
        ],
    )
    def test_what_follows_from_a_fault_is_none(self, key, value):
        config = deepcopy(SMALL)
        config["experiments"]["demo"]["algorithms"] = ["cips", "kl"]
        config["datasets"]["toy"]["sha256"] = {"a.svm": "0" * 64}
        config = changed(key, value, config)
        if key.endswith("estimater"):
            del config["algorithms"]["kl"]["estimator"]
        with pytest.raises(InputError) as error:
            complete(config, SCHEMA)
        assert len(error.value.args) == 1


class TestOtherAlgorithms:
    """An experiment that is given other algorithms keeps of its curve and ablation what it has."""

    @staticmethod
    def given(algorithms: list[str]) -> tuple[dict, dict]:
        """The shipped configuration with other algorithms of beyond, as it is given and completed."""
        config = deepcopy(SHIPPED)
        config["experiments"]["beyond"]["algorithms"] = algorithms
        return config, complete(config, SCHEMA)

    def test_are_kept_where_they_are_left(self):
        given, config = self.given(["cips", "poem", "kl_dro", "dr", "kl_dro_dr"])
        beyond = config["experiments"]["beyond"]
        assert beyond["replay_curve"]["algorithms"] == ["poem", "kl_dro", "kl_dro_dr"]
        assert beyond["ablation"]["algorithms"] == ["cips", "kl_dro", "dr", "kl_dro_dr"]
        assert left_out(given, config, "beyond") == (
            "not among its algorithms, and left out: akl_crm of its replay_curve; snips, kl_dro_snips, dm, "
            "norm_poem, log_smoothing, implicit_exploration, exponential_smoothing, log_sum_exp, weighted_likelihood "
            "of its ablation"
        )
        assert left_out(given, config, "demo") == ""
        assert not {"norm_poem_from_zero", "dm_from_zero"} & set(config["algorithms"])

    def test_without_any_the_curve_shows_all_and_there_is_no_ablation(self):
        given, config = self.given(["kl_crm", "chi2_dro"])
        beyond = config["experiments"]["beyond"]
        assert shown_algorithms(config, "beyond", "replay_count") == ["kl_crm", "chi2_dro"]
        assert "ablation" not in beyond
        said = left_out(given, config, "beyond")
        assert "poem, akl_crm, kl_dro, kl_dro_dr of its replay_curve, which shows all it has; cips, " in said
        assert said.endswith(" of its ablation, which falls away")

    def test_that_there_are_not_are_errors(self):
        config = deepcopy(SHIPPED)
        config["experiments"]["beyond"]["replay_curve"]["algorithms"] = ["poem", "peom"]
        with pytest.raises(
            InputError, match=r"^config: experiments\.beyond\.replay_curve\.algorithms: unknown algorithm"
        ):
            complete(config, SCHEMA)


class TestAblation:
    def test_adds_its_algorithms_from_other_starts(self):
        algorithms = {
            "own": {"estimator": "KLDRO", "parameter": "radius", "grid": [1], "options": {"estimate": "dr"}},
            "moved": {"estimator": "CIPS", "label": "Moved", "options": {"start": "model", "tilt": 1}},
        }
        ablation = {"algorithms": ["own", "moved"], "starts": ["zero", "model"], "seeds": 2}
        demo = {"datasets": ["toy"], "algorithms": ["moved", "own"], "replay_count": 4, "ablation": ablation}
        config = complete({**SMALL, "algorithms": algorithms, "experiments": {"demo": demo}, "run": ["demo"]}, SCHEMA)
        assert list(config["algorithms"]) == ["own", "moved", "own_from_model", "moved_from_zero"]
        added = config["algorithms"]["own_from_model"]
        assert added == {
            **config["algorithms"]["own"],
            "options": {"estimate": "dr", "start": "model"},
            "label": "own, from the logging policy tilted by the cost model",
        }
        assert config["algorithms"]["moved_from_zero"]["options"]["start"] == "zero"
        everything = ["moved", "own", "own_from_model", "moved_from_zero"]
        assert all_algorithms(config, "demo") == everything
        assert [len(run_algorithms(config, "demo", "toy", 4, seed)) for seed in (0, 1, 2)] == [4, 4, 2]

    def test_does_not_replace_an_algorithm_of_the_same_name(self):
        algorithms = {"own": {"estimator": "CIPS"}, "own_from_logging": {"estimator": "CIPS"}}
        demo = {"datasets": ["toy"], "algorithms": ["own"], "ablation": {"algorithms": ["own"], "starts": ["logging"]}}
        config = {**SMALL, "algorithms": algorithms, "experiments": {"demo": demo}}
        with pytest.raises(InputError, match=r"algorithms\.own_from_logging: this name is that of own in an ablation"):
            complete(config, SCHEMA)

    def test_of_an_algorithm_or_a_start_that_is_unknown(self):
        for key, value, said in (
            ("algorithms", ["cips", "poem"], "config: experiments.demo.ablation.algorithms: unknown algorithm 'poem'"),
            ("starts", ["nought"], "config: experiments.demo.ablation.starts: unknown start 'nought'"),
        ):
            ablation = {"algorithms": ["cips"], "starts": ["zero"], key: value}
            demo = {"datasets": ["toy"], "algorithms": ["cips"], "ablation": ablation}
            with pytest.raises(InputError, match=said):
                complete({**SMALL, "experiments": {"demo": demo}}, SCHEMA)


class TestLooks:
    def test_algorithms_without_a_look_of_their_own_are_told_apart(self):
        algorithms = {f"own{i}": {"estimator": "CIPS"} for i in range(20)}
        algorithms["own3"] |= {"label": "My own", "colour": "#44AA99"}
        algorithms["own4"] |= {"colour": "#882255", "marker": "*"}
        config = {**SMALL, "algorithms": SMALL["algorithms"] | algorithms}
        found = complete(config, SCHEMA)["algorithms"]
        assert len({(each["colour"], each["marker"]) for each in found.values()}) == len(found)
        assert (found["own3"]["label"], found["own3"]["colour"]) == ("My own", "#44AA99")
        assert found["own4"]["marker"] == "*"
        assert found["own5"]["label"] == "own5"

    def test_the_shipped_ones_are(self):
        algorithms = complete(SHIPPED, SCHEMA)["algorithms"]
        shipped = [algorithms[name] for name in SHIPPED["algorithms"]]
        for key in ("label", "colour"):  # there are fewer markers than algorithms
            assert len({each[key] for each in shipped}) == len(shipped)
        assert all({"label", "colour", "marker"} <= each.keys() for each in SHIPPED["algorithms"].values())

    def test_data_sets_have_labels(self):
        assert all("label" in each for each in SHIPPED["datasets"].values())
        assert complete(SMALL, SCHEMA)["datasets"]["toy"]["label"] == "toy"


class TestText:
    """Snakemake's --config gives nested values as text, and YAML reads 1e-5 as text."""

    @pytest.mark.parametrize(
        ("key", "text", "meant"),
        [
            ("experiments.demo.seeds", "3", 3),
            ("experiments.demo.replay_curve.counts", ["1", "16"], [1, 16]),
            ("experiments.demo.logging_c", "1e-5", 1e-5),
            ("algorithms.kl.grid", [1.0, "1e-5"], [1.0, 1e-5]),
            ("datasets.toy.labels", "2", 2),
            ("datasets.toy.labels", ["0", "5"], [0, 5]),
            ("datasets.toy.drop_repeats", "true", True),
            ("datasets.toy.url", "https://123", "https://123"),
        ],
    )
    def test_counts_as_what_it_spells(self, key, text, meant):
        assert complete(changed(key, text), SCHEMA) == complete(changed(key, meant), SCHEMA)

    @pytest.mark.parametrize("text", ["three", "3.5", "", "nan", "0"])
    def test_that_spells_nothing_useful_is_refused(self, text):
        assert fault("experiments.demo.seeds", text).startswith("config: experiments.demo.seeds: ")

    def test_the_configuration_given_is_left_as_it_is(self):
        config = changed("experiments.demo.seeds", "3")
        before = deepcopy(config)
        complete(config, SCHEMA)
        assert config == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cost": "c"}, "logs.shop: "),
        ({"action": 3}, "logs.shop: action is 3"),
        ({"path": 3}, "logs.shop.path: "),
        ({"featurs": {}}, "logs.shop: "),
        ({"algorithm": "kl_dor"}, "logs.shop.algorithm: unknown algorithm 'kl_dor'"),
        ({"algorithm": ["cips", None]}, "logs.shop: algorithm is None"),
        ({"algorithm": {"estimator": "KLDOR"}}, "logs.shop.algorithm: unknown estimator 'KLDOR'"),
        (
            {"algorithm": {"estimator": "CIPS", "options": {"features": {"nystroem; x": 3}}}},
            "logs.shop.algorithm: features is {'nystroem; x': 3}, expected one of nystroem, random_trees",
        ),
    ],
)
def test_a_log_whose_mapping_is_none(change, said):
    own = {"path": "log.csv", "action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}}
    assert complete(changed("logs", {"shop": own}), SCHEMA)["logs"] == {"shop": own}
    with pytest.raises(InputError, match=re.escape(said)):
        complete(changed("logs", {"shop": own | change}), SCHEMA)


def test_a_log_needs_a_name_of_its_own():
    own = {"path": "log.csv"}
    with pytest.raises(InputError, match=r"logs\.demo: there is an experiment of this name"):
        complete(changed("logs", {"demo": own}), SCHEMA)
    with pytest.raises(InputError, match=r"logs: 'learn'|logs\.learn|learn"):
        complete(changed("logs", {"learn": own}), SCHEMA)
