"""Learned policies explore: ``decide``, ``predict`` and ``export`` draw from the mixture that ``learn`` tested."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shop import MAPPING
from small_action_logs import LABELS, LISTS, label_log, list_log

import drcrm
from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.evaluation.off_policy_value import off_policy_value as value_of
from drcrm.files import write_npz
from drcrm.logs.decisions.learning import describe_exploration
from drcrm.logs.policy_file import read_policy
from drcrm.logs.serving.context_scores import export_policy
from drcrm.logs.serving.served_policy import load_policy
from drcrm.mapping.log_mapping import EXPLORE

FAST = {"algorithm": "kl_dro_dr"}


@pytest.fixture(scope="module")
def policies(shop, tmp_path_factory) -> dict[str, Path]:
    """Return files of policies over one of K actions, label vectors and lists, each in the folder of its log."""
    files = {"single": shop / "policy.npz"}
    for name, frame, mapping in (("labels", label_log(), LABELS), ("lists", list_log(), LISTS)):
        folder = tmp_path_factory.mktemp(name)
        frame.to_csv(folder / "log.csv", index=False)
        config = json.dumps(mapping | FAST)
        assert main(["learn", f"{folder}/log.csv", "--config", config, "--output", f"{folder}/policy.npz"]) == 0
        candidate = folder / "policy.candidate.npz"
        files[name] = candidate if candidate.exists() else folder / "policy.npz"
    return files


def exploring_law(stored, X) -> np.ndarray | list[np.ndarray]:
    """Return the probabilities of all actions of each context, from the coefficients."""
    policy = stored.policy
    if stored.encoding.kind == "lists":
        scores = np.split(X.features @ policy.coef + policy.intercept, X.starts[1:-1])
        laws = [np.exp(part - part.max()) for part in scores]
        return [(1 - EXPLORE) * part / part.sum() + EXPLORE / len(part) for part in laws]
    scores = np.asarray(X @ policy.coef + policy.intercept)
    if stored.encoding.kind == "single":
        weight = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (1 - EXPLORE) * weight / weight.sum(axis=1, keepdims=True) + EXPLORE / scores.shape[1]
    mean = 1 / (1 + np.exp(-scores))
    vectors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    known = np.where(vectors[None] == 1, mean[:, None], 1 - mean[:, None]).prod(axis=2)
    return (1 - EXPLORE) * known + EXPLORE / 4


def log_of(path: Path) -> pd.DataFrame:
    return pd.read_csv(path.parent / "log.csv")


@pytest.mark.parametrize("kind", ["single", "labels", "lists"])
def test_decide_predict_and_export_have_the_propensities_of_the_mixture(kind, policies, tmp_path, run):
    path = policies[kind]
    stored, frame = read_policy(path), log_of(path)
    assert stored.policy.explore == EXPLORE
    X = stored.encoding.contexts(frame)
    law = exploring_law(stored, X)

    def expected(actions: np.ndarray) -> np.ndarray:
        place = actions @ [2, 1] if kind == "labels" else actions
        return np.array([law[row][number] for row, number in enumerate(place)])

    out = tmp_path / "out.csv"
    assert run("predict", path, path.parent / "log.csv", "--output", out)[0] == 0
    drawn = pd.read_csv(out)
    names = [str(name) for name in stored.encoding.names]
    columns = names if kind == "labels" else [drawn.columns[0] if kind == "single" else "action"]
    if kind == "single":
        actions = pd.Index(names).get_indexer(drawn[columns[0]])
    else:
        actions = drawn[columns].to_numpy() if kind == "labels" else drawn["action"].to_numpy()
    np.testing.assert_allclose(drawn["propensity"], expected(actions), rtol=0, atol=1e-12)
    served = load_policy(path)
    decided, propensity = served.decide(frame, random_state=0)
    places = pd.Index(names).get_indexer(decided) if kind == "single" else decided
    np.testing.assert_allclose(propensity, expected(places), rtol=0, atol=1e-12)
    if kind != "lists":
        content = json.loads(served.to_json())
        assert (content["version"], content["explore"]) == (3, EXPLORE)
        one = frame.iloc[0].to_dict()
        action, propensity = served.decide(one, random_state=1)
        place = np.array([[*action.values()]]) if kind == "labels" else [names.index(action)]
        assert propensity == pytest.approx(expected(place)[0], abs=1e-12)


def test_another_share_of_decisions_is_not_covered_by_the_certificate(policies):
    served, context = load_policy(policies["single"]), log_of(policies["single"]).iloc[0].to_dict()
    with pytest.warns(UserWarning, match=rf"covers the share {EXPLORE:g} of uniform actions, not 0.5"):
        action, propensity = served.decide(context, random_state=0, explore=0.5)
    known = read_policy(policies["single"]).policy.with_exploration(0.5)
    mean = known.marginals(served._encode([context]))[0]
    assert propensity == pytest.approx(mean[served.names.index(action)], abs=1e-12)
    served.decide(context, explore=EXPLORE)  # without a warning, which would be an error
    with pytest.raises(InputError, match="explore is 2"):
        served.decide(context, explore=2)


def test_files_of_old_versions_do_not_explore(policies, tmp_path):
    arrays = dict(np.load(policies["single"], allow_pickle=False))
    header = json.loads(str(arrays["header"]))
    assert header.pop("explore") == EXPLORE
    write_npz(tmp_path / "old.npz", **(arrays | {"header": np.array(json.dumps(header))}))
    old, stored = read_policy(tmp_path / "old.npz"), read_policy(policies["single"])
    assert old.policy.explore == export_policy(old)["explore"] == 0
    np.testing.assert_array_equal(old.policy.coef, stored.policy.coef)


def test_the_answer_has_the_cost_of_exploration_and_the_size_of_the_next_log(shop):
    answer = json.loads((shop / "answer.json").read_text())
    assert answer["verdict"]["verdict"] == "better"
    stored, part = read_policy(shop / "policy.npz"), answer["exploration"]
    log = drcrm.read_log(shop / "log.csv", MAPPING)
    heldout = read_policy(shop / "policy.npz", with_rows=True).rows.heldout
    encoded = log.replace(X=stored.encoding.contexts(log_of(shop / "policy.npz"))).recount(heldout.astype(int))
    pure = stored.policy.with_exploration(0.0).marginals(encoded.X)
    uniform = np.full_like(pure, 1 / 3)
    options = {"cost_model": stored.model}
    costs = [float(value_of(mean, encoded, "dr", **options)) for mean in (pure, uniform)]
    assert part["share"] == EXPLORE
    assert part["cost"]["value"] == pytest.approx(EXPLORE * (costs[1] - costs[0]), rel=1e-6)
    assert part["cost"]["value"] > 0
    assert part["cost"]["low"] < part["cost"]["value"] < part["cost"]["high"]
    probability = (1 - EXPLORE) * pure + EXPLORE / 3
    assert part["rows"] == 3000
    assert part["effective_size"] == pytest.approx(3000 / (1 / probability).mean(axis=0).max(), rel=1e-9)
    assert part["effective_size"] >= 3000 * EXPLORE / 3
    report = (shop / "report.html").read_text(encoding="utf-8")
    assert f"The policy file draws {100 * EXPLORE:g} % of the actions uniformly." in report


@pytest.mark.parametrize("kind", ["labels", "lists"])
def test_the_size_of_fixed_choices_of_other_actions(kind, policies):
    path = policies[kind]
    stored = read_policy(path)
    log = drcrm.read_log(path.parent / "log.csv", LABELS if kind == "labels" else LISTS)
    log = log.replace(X=stored.encoding.contexts(log_of(path))) if kind == "labels" else log
    described = describe_exploration(stored.policy, log, 100.0)
    assert described["of_label"] == (kind == "labels")
    X = log.actions.unbind(log.X)
    law = exploring_law(stored, X)
    if kind == "labels":
        mean = np.asarray(law) @ [[0, 0], [0, 1], [1, 0], [1, 1]]
        expected = 100 / (1 / np.hstack([mean, 1 - mean])).mean(axis=0).max()
    else:
        expected = 100 / np.mean([1 / part.min() for part in law])
    assert described["effective_size"] == pytest.approx(expected, rel=1e-9)
