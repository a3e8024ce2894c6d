"""Policy trees that compete, and what other policies would gain."""

import numpy as np
import pandas as pd
import pytest

from drcrm import certify, learn, load_policy
from drcrm.cost_models.base import action_effects
from drcrm.errors import InputError
from drcrm.logs.decisions import learning
from drcrm.policies.trees.tree import tree_of

MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age"], "categorical": ["city"]},
    "algorithm": "policy_tree",
}


def log_of(n: int, effect: float = 0.5, seed: int = 0) -> pd.DataFrame:
    """Return a log of uniform actions: offer b is better in Bern for people of at most 40 years, and else offer a."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 70, n), "city": rng.choice(["Bern", "Genf", "Basel"], n)})
    frame["item"], frame["p"] = rng.choice(["a", "b", "c"], n), 1 / 3
    best = np.where((frame.city == "Bern") & (frame.age <= 40), "b", "a")
    return frame.assign(click=1 * (rng.random(n) < 0.2 + effect * (frame.item == best)))


@pytest.mark.parametrize("validation", ["holdout", "blocks"])
def test_learn_finds_the_best_tree_and_shows_it(validation, tmp_path):
    answer = learn(log_of(3000), MAPPING, validation=validation, output=tmp_path / "policy.npz")
    assert answer.is_better
    policy, content = load_policy(tmp_path / "policy.npz"), answer.as_dict()
    text = tree_of(policy.policy).export_text(policy.names)
    assert ("city in {" in text, "age ≤" in text) == (True, True)
    action, propensity = policy.decide({"age": 20, "city": "Bern"}, 0)
    assert action == "b"
    np.testing.assert_allclose(propensity, 0.95 + 0.05 / 3, rtol=1e-12)
    rows = pd.DataFrame({"age": [20, 60, 60], "city": ["Genf", "Bern", "Basel"]})
    probability = policy.policy.marginals(policy.encoding.contexts(rows))
    np.testing.assert_allclose(probability, [[0.95 + 0.05 / 3, 0.05 / 3, 0.05 / 3]] * 3, rtol=1e-12)
    assert content["single_action"]["action"] == "a"  # b is better in two ninths of the contexts
    change = content["single_action"]["corrected"]
    assert change["low"] <= -0.5 * 0.95 * (23 / 52) / 3 <= change["high"] < 0
    sentences = " ".join(str(answer).split())
    assert "the best single action for everybody, a, " in sentences
    assert "among 1 candidates" not in sentences


def test_leaves_have_their_gains_with_intervals(tmp_path):
    path = tmp_path / "policy.npz"
    learn(log_of(3000), MAPPING, output=path)
    later = log_of(20000, seed=2)
    answer, policy = certify(path, later), load_policy(path)
    leaves = answer.as_dict()["leaves"]
    assert [entry["leaf"] for entry in leaves] == tree_of(policy.policy).leaf_conditions()
    assert sum(entry["rows"] for entry in leaves) == 20000
    assert answer.as_dict()["explanation"]["fidelity"] == 1
    assert answer.as_dict()["explanation"]["is_policy"]
    leaf = tree_of(policy.policy).apply_encoded(policy.encoding.contexts(later))
    best = np.where((later.city == "Bern") & (later.age <= 40), "b", "a")
    for number, entry in enumerate(leaves):
        rows = leaf == number
        share = np.mean(best[rows] == entry["action"])
        gain = 0.5 * 0.95 * (share - 1 / 3)  # the uniform share is worth what the log is worth
        assert entry["rows"] == rows.sum()
        assert entry["difference"]["low"] <= -gain <= entry["difference"]["high"]
    answer.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the policy does" in report
    assert "the intervals of all leaves hold together" in report


def test_a_tree_explains_a_policy_without_one(tmp_path):
    path = tmp_path / "policy.npz"
    answer = learn(log_of(3000), MAPPING | {"algorithm": "kl_dro_dr"}, output=path)
    for content in (answer.as_dict(), certify(path, log_of(2000, seed=2)).as_dict()):
        explanation, leaves = content["explanation"], content["leaves"]
        assert 0.8 < explanation["fidelity"] <= 1
        assert sum(leaf["rows"] for leaf in leaves) == (content["log"].get("heldout") or 2000)
        assert [node["depth"] for node in explanation["nodes"][:2]] == [0, 1]
        assert not explanation["is_policy"]
    assert tree_of(load_policy(path).policy) is None
    assert "rows that the tree was not fitted to" in " ".join(str(answer).split())


def test_certify_and_an_unseen_category_or_a_missing_number(tmp_path):
    learn(log_of(3000), MAPPING, output=tmp_path / "policy.npz")
    later = log_of(1500, seed=1)
    answer = certify(tmp_path / "policy.npz", later)
    assert answer.is_better
    odd = later.assign(city=later.city.replace("Genf", "Lugano"), age=later.age.astype(float).where(later.age < 60))
    policy = load_policy(tmp_path / "policy.npz")
    actions = np.array(policy.names)[policy.policy.greedy(policy.encoding.contexts(odd))]
    is_plain = ((odd.city != "Lugano") & odd.age.notna()).to_numpy()
    best = np.where((odd.city == "Bern") & (odd.age <= 40), "b", "a")
    assert np.mean(actions[is_plain] == best[is_plain]) > 0.95
    assert set(actions[~is_plain]) <= {"a", "b"}


def test_a_log_whose_best_policy_is_one_action_for_everybody():
    frame = log_of(3000, effect=0.0)
    frame["click"] = 1 * (np.random.default_rng(5).random(3000) < 0.2 + 0.3 * (frame.item == "c"))
    answer = learn(frame, MAPPING | {"algorithm": None}, readable=True)
    assert answer.is_better
    assert answer.as_dict()["single_action"]["action"] == "c"
    sentence = str(answer)
    assert "takes a single action for everybody, c." in sentence or "may be as good" in sentence


def test_without_columns_that_people_can_read_no_tree_competes():
    mapping = MAPPING | {"algorithm": None, "features": {}}
    answer = learn(log_of(1500), mapping)
    names = [candidate["name"] for candidate in answer.as_dict()["candidates"]]
    assert ("single_action" in names, "policy_tree" in names) == (True, False)


def test_trees_need_one_of_k_actions():
    frame = log_of(60).assign(b=1)
    with pytest.raises(InputError, match="a policy tree"):
        learn(frame.assign(c=np.arange(60) % 2), MAPPING | {"action": None, "labels": ["b", "c"]})


@pytest.mark.parametrize("rule", ["tree", "slope"])
def test_what_readability_costs_is_the_paired_difference_of_a_tree_and_another_policy(rule, monkeypatch):
    judged, price = [], learning.price_readability
    monkeypatch.setattr(learning, "price_readability", lambda judgement: judged.append(judgement) or price(judgement))
    frame = log_of(3000)
    if rule == "slope":
        frame["click"] = 1 * (np.random.default_rng(3).random(3000) < abs((frame.item != "a") - (frame.age - 18) / 52))
    answer = learn(frame, MAPPING | {"algorithm": ["policy_tree", "kl_dro_dr"]})
    part, [judgement] = answer.as_dict()["readability"], judged
    assert (part["tree"], part["other"]) == ("policy tree", "KL-DRO, DR")
    log, model = judgement.opened.evaluated, judgement.best.cost_model
    effects = action_effects(model, log.X, log.actions)
    rows = np.arange(len(log.Y))
    z = []
    for policy in judgement.policies:
        mean = policy.policy.marginals(log.X)
        weight = mean[rows, log.Y] / log.propensity
        z.append((mean * effects).sum(axis=1) + weight * (log.cost - effects[rows, log.Y]))
    difference = z[0] - z[1]
    assert part["difference"]["value"] == pytest.approx(difference.mean(), abs=1e-12)
    error = difference.std(ddof=1) / np.sqrt(len(rows))
    assert part["difference"]["standard_error"] == pytest.approx(error, rel=1e-9)
    assert "not adjusted for their choice among" in " ".join(str(answer).split())


@pytest.mark.parametrize("changes", [{"algorithm": "kl_dro_dr"}, {"algorithm": ["single_action", "policy_tree"]}])
def test_without_a_tree_or_without_another_policy_readability_has_no_price(changes):
    assert learn(log_of(1500), MAPPING | changes).as_dict()["readability"] is None
