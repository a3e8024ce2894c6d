"""Cross-checks of the configuration: names, numbers, file names, estimators, actions and mappings."""

import math
import re

import pytest
from fixtures.pipeline import ROOT, SCHEMA, SINGLE, SMALL, changed, fault_of

from drcrm.mapping.checks import parse_yaml
from drcrm.paper.config import complete

RULE = re.compile(r"^rule (\w+):", re.MULTILINE)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("experiments.demo.datasets", ["toi"], "unknown data set 'toi'; did you mean 'toy'? (allowed: toy, d"),
        ("experiments.demo.algorithms", ["kll"], "unknown algorithm 'kll'; did you mean 'kl'?"),
        ("experiments.demo.selection", ["snip"], "unknown held-out score 'snip'; did you mean 'snips'? (allowed: ips"),
        ("experiments.demo.replay_curve.datasets", ["x"], "unknown data set 'x' (allowed: toy, digits)"),
        ("experiments.demo.replay_curve.algorithms", ["kll"], "unknown algorithm 'kll'; did you mean 'kl'?"),
        ("run", ["dmo"], "unknown experiment 'dmo'; did you mean 'demo'? (allowed: demo, theory, studies)"),
        ("datasets.toy.sha256", {"c.bz2": "0" * 64}, "unknown file 'c.bz2' (allowed: a.svm, b.svm)"),
        ("datasets.toy.train", ["-x"], "'-x' is not a file name, expected no path, no"),
        ("experiments.demo.heldout_fraction", math.nan, "must be a finite number, got nan"),
        ("experiments.demo.logging_c", math.inf, "must be a finite number, got inf"),
    ],
)
def test_an_unknown_name_or_an_odd_number_is_an_error(key, value, message):
    expected = f"config: {key}: {message}"
    if "not a file name" in message:
        expected = f"config: datasets.toy: {message}"
    assert fault_of(key, value).startswith(expected)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("theory", {"datasets": ["toi"]}, "theory.datasets: unknown data set 'toi'; did you mean 'toy'?"),
        ("theory", {"datasets": ["classes"]}, "theory.datasets: 'classes' has one action of K, expected label vectors"),
        ("experiments.demo.start", "x", "experiments.demo.start: 'x' is not one of [None, 'zero', 'logging', "),
    ],
)
def test_other_sections_know_the_names_too(key, value, message):
    assert fault_of(key, value, SINGLE).startswith(f"config: {message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": {"dema": {"toy": 1}}}, "studies.support.runs: unknown experiment"),
        ({"runs": {"demo": {"toi": 1}}}, "studies.support.runs.demo: unknown data set"),
        ({"algorithms": ["cip"]}, "studies.support.algorithms: unknown algorithm"),
    ],
)
def test_a_study_of_unknown_names_is_an_error(changes, message):
    study = {"runs": {"demo": {"toy": 1}}, "algorithms": ["cips"], "sharpness": [1], "replays": 1, **changes}
    assert fault_of("studies", {"support": study}).startswith(f"config: {message}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("choice.click_rates", [0.2, 0.7], "must be above the rate of wrong ones, got 0.2, 0.7"),
        ("choice.click_rates", [0.5, 0.5], "must be above the rate of wrong ones, got 0.5, 0.5"),
        ("demo.click_rates", [0.7, 0.2], "need one action of K, but 'toy' has label vectors"),
        ("choice.absent_label_score", "half", "'half' needs label vectors, but 'classes' has one action of K"),
        ("demo.algorithms", ["cips", "peer"], "'peer' needs one action of K, but 'toy' has label vectors"),
        ("choice.seeds", {"toy": 3}, "must have a number for each data set, but lacks classes"),
    ],
)
def test_options_that_do_not_fit_the_actions_are_an_error(key, value, message):
    error = fault_of(f"experiments.{key}", value, SINGLE)
    assert error.startswith(f"config: experiments.{key}")
    assert message in error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": "KLDR"}, "unknown estimator 'KLDR'; did you mean 'KLDRO'? (allowed: CIPS, POEM, KLCRM, "),
        ({"estimator": "no.where:Risk"}, "estimator no.where:Risk: No module named 'no'"),
        ({"parameter": "temperature"}, "the hyper-parameter of KLDRO is temperature and 2 values, expected radius and"),
        ({"options": {"variance": "sum"}}, "KLDRO has no parameter 'variance', expected radius"),
        ({"options": {"features": {"nystroem": 0}}}, "features.nystroem is 0, expected a whole number"),
    ],
)
def test_an_algorithm_that_does_not_fit_its_estimator_is_an_error(change, message):
    """``Algorithm.criteria`` has the other checks."""
    entry = SMALL["algorithms"]["kl"] | change
    assert fault_of("algorithms.kl", entry).startswith(f"config: algorithms.kl: {message}")


LOG = {"path": "log.csv", "action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "c"}, "logs.shop: "),
        ({"action": 3}, "logs.shop: "),
        ({"featurs": {}}, "logs.shop: "),
        ({"algorithm": "kl_dor"}, "logs.shop.algorithm: unknown algorithm 'kl_dor'"),
        ({"algorithm": {"estimator": "KLDOR"}}, "logs.shop: unknown estimator 'KLDOR'"),
    ],
)
def test_a_log_with_an_invalid_mapping_is_an_error(change, message):
    assert complete(changed("logs", {"shop": LOG}), SCHEMA)["logs"] == {"shop": LOG}
    assert fault_of("logs", {"shop": LOG | change}).startswith(f"config: {message}")


def test_classifiers_and_cost_models_of_scikit_learn_are_checked():
    peer, model = "algorithms.peer.classifier", "algorithms.cips.options"
    forest = {"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 5}}
    accepted = changed(peer, forest, changed(model, {"cost_model": "sklearn.linear_model:Ridge"}, SINGLE))
    assert complete(accepted, SCHEMA)["algorithms"]["peer"]["classifier"] == forest
    message = fault_of(peer, "sklearn.ensemble:Forest", SINGLE)
    assert message.startswith("config: algorithms.peer: classifier sklearn.ensemble:Forest: module 'sklearn.ensemble'")
    assert "algorithms.peer" in fault_of(peer, "forest", SINGLE)
    message = fault_of(model, {"cost_model": {"sklearn.svm:SVR": {"depth": 3}}}, SINGLE)
    assert "got an unexpected keyword argument 'depth'" in message


@pytest.mark.parametrize("config", [SMALL, SINGLE], ids=["label vectors", "one action of K"])
def test_a_competitor_is_accepted_for_every_kind_of_action(config):
    entry = {"competitor": {"fixtures.user_input:Frequencies": {"largest_cost": -1}}, "label": "mine"}
    accepted = changed("experiments.demo.algorithms", ["cips", "mine"], changed("algorithms.mine", entry, config))
    assert complete(accepted, SCHEMA)["algorithms"]["mine"]["competitor"] == entry["competitor"]
    message = fault_of("algorithms.mine", {**entry, "competitor": "fixtures.user_input:Missing"}, config)
    assert "config: algorithms.mine: competitor fixtures.user_input:Missing" in message


@pytest.mark.parametrize("name", ["fit", "theory", "loop_study"])
def test_an_experiment_or_a_log_has_not_the_name_of_a_rule_or_of_a_study(name):
    message = f"{name!r} is the name of a rule or of a study, so an experiment or a log cannot have it"
    assert fault_of(f"experiments.{name}", {"datasets": ["toy"]}) == f"config: experiments: {message}"
    assert fault_of("logs", {name: {"path": "a.csv"}}) == f"config: logs: {message}"


def test_numbers_and_null_of_a_log_may_be_texts_as_in_nested_values_of_snakemake_config():
    texts = LOG | {"explore": "1e-2", "time": "null", "least_propensity": "1e-3", "propensity": "null"}
    log = complete(changed("logs", {"shop": texts | {"propensity_model": "auto"}}), SCHEMA)["logs"]["shop"]
    assert (log["time"], log["propensity"]) == (None, None)
    options = {"cost_model": "sklearn.svm:SVR", "features": {"nystroem": "5"}, "safe": "true"}
    entry = complete(changed("algorithms.kl.options", options), SCHEMA)["algorithms"]["kl"]
    assert entry["options"] == {"cost_model": "sklearn.svm:SVR", "features": {"nystroem": 5}, "safe": True}


@pytest.mark.parametrize("path", ["{week}.csv", "logs{1}/a.csv", "a{.csv"])
def test_braces_in_the_path_of_a_log_are_an_error(path):
    message = "has braces, which Snakemake reads as wildcards: rename the file"
    assert fault_of("logs", {"shop": LOG | {"path": path}}) == f"config: logs.shop.path: {path!r} {message}"


def test_the_names_that_are_taken_are_those_of_the_rules():
    rules = {
        rule for path in (ROOT / "workflow").rglob("*") if path.is_file() for rule in RULE.findall(path.read_text())
    }
    names = parse_yaml(SCHEMA.read_text())["properties"]["experiments"]["propertyNames"]["not"]["anyOf"][1]["enum"]
    assert {*names} == rules | {"default", "theory", "studies"}
    assert len(rules) > 20


@pytest.mark.parametrize("value", [2.5, "2.5", "25e-1", True, ".inf"])
def test_numbers_of_seeds_that_are_not_whole_are_an_error(value):
    assert fault_of("experiments.demo.seeds", value).startswith("config: experiments.demo.seeds: ")


def test_the_reference_of_tests_is_an_algorithm_of_the_experiment():
    """The default, poem, may be absent."""
    assert complete(SMALL, SCHEMA)["experiments"]["demo"]["reference"] == "poem"
    assert complete(changed("experiments.demo.reference", "kl"), SCHEMA)["experiments"]["demo"]["reference"] == "kl"
    message = fault_of("experiments.demo.reference", "akl")
    assert (
        message == "config: experiments.demo.reference: unknown algorithm 'akl'; did you mean 'kl'? (allowed: cips, kl)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"logging": "greedy"}, "config: experiments.demo.logging: policy is 'greedy', expected"),
        ({"logging": {"softmax": {"heat": 1}}}, "config: experiments.demo.logging: policy "),
        ({"logging": {"softmax": {"temperature": 0}}}, "config: experiments.demo.logging: policy "),
        ({"logging": "nowhere:Policy"}, "config: experiments.demo.logging: policy nowhere:Policy: "),
        (
            {"logging": "uniform", "absent_label_score": "half"},
            "config: experiments.demo.absent_label_score: 'half' needs",
        ),
        (
            {"logging": "uniform", "start": "logging"},
            "config: experiments.demo: 'cips' starts at the coefficients of the logging policy, which only crf has",
        ),
    ],
)
def test_a_logging_policy_that_cannot_be_made_or_lacks_coefficients_is_refused(options, message):
    experiment = {**SMALL["experiments"]["demo"], "algorithms": ["cips"], **options}
    assert fault_of("experiments.demo", experiment).startswith(message)
