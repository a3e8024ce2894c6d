"""Exploration: policies that explore, and logs of simple exploring policies."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import draw_actions
from fixtures.user_logs import MAPPING, decisions

import drcrm
from drcrm import ActionLists, SoftmaxPolicy
from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.evaluation.off_policy_value import off_policy_value as value_of
from drcrm.files import write_npz
from drcrm.logs.decisions.learning import describe_exploration
from drcrm.logs.policy_file import read_policy
from drcrm.logs.serving.context_scores import export_policy
from drcrm.logs.serving.served_policy import load_policy
from drcrm.mapping.log_mapping import EXPLORE


def test_another_share_of_decisions_is_not_covered_by_the_certificate(shop):
    served, context = load_policy(shop / "policy.npz"), decisions(1).iloc[0].to_dict()
    with pytest.warns(UserWarning, match=rf"covers the share {EXPLORE:g} of uniform actions, not 0.5"):
        action, propensity = served.decide(context, random_state=0, explore=0.5)
    known = read_policy(shop / "policy.npz").policy.with_exploration(0.5)
    mean = known.marginals(served._encode([context]))[0]
    assert propensity == pytest.approx(mean[served.names.index(action)], abs=1e-12)
    served.decide(context, explore=EXPLORE)  # without a warning, which would be an error
    with pytest.raises(InputError, match="explore is 2"):
        served.decide(context, explore=2)


def test_files_of_old_versions_do_not_explore(shop, tmp_path):
    arrays = dict(np.load(shop / "policy.npz", allow_pickle=False))
    header = json.loads(str(arrays["header"]))
    assert header.pop("explore") == EXPLORE
    write_npz(tmp_path / "old.npz", **(arrays | {"header": np.array(json.dumps(header))}))
    old, stored = read_policy(tmp_path / "old.npz"), read_policy(shop / "policy.npz")
    assert old.policy.explore == export_policy(old)["explore"] == 0
    np.testing.assert_array_equal(old.policy.coef, stored.policy.coef)


def test_the_answer_has_the_cost_of_exploration_and_the_size_of_the_next_log(shop):
    answer = json.loads((shop / "answer.json").read_text())
    assert answer["verdict"]["verdict"] == "better"
    stored, part = read_policy(shop / "policy.npz"), answer["exploration"]
    log = drcrm.read_log(shop / "log.csv", MAPPING)
    heldout = read_policy(shop / "policy.npz", with_rows=True).rows.heldout
    encoded = log.replace(X=stored.encoding.contexts(decisions(3000))).recount(heldout.astype(int))
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


def test_the_size_of_fixed_choices_of_labels_and_of_lists(logged, random_policy):
    """It is 100 over the largest mean of 1/π: over the values of the labels, or over the candidates of each list."""
    log, policy = logged(), random_policy(1).with_exploration(EXPLORE)
    mean = policy.marginals(log.X)[log.context]
    described = describe_exploration(policy, log, 100.0)
    assert described["of_label"]
    assert described["effective_size"] == pytest.approx(100 / (1 / np.hstack([mean, 1 - mean])).mean(axis=0).max())
    rng = np.random.default_rng(0)
    X = ActionLists(rng.normal(size=(90, 2)), np.arange(0, 91, 3))
    lists = drcrm.BanditLog(X, rng.integers(0, 3, 30), np.full(30, 1 / 3), rng.random(30))
    described = describe_exploration(SoftmaxPolicy([1.0, -1.0]).with_exploration(EXPLORE), lists, 100.0)
    weight = np.exp(X.features @ [1.0, -1.0]).reshape(30, 3)
    law = (1 - EXPLORE) * weight / weight.sum(axis=1, keepdims=True) + EXPLORE / 3
    assert not described["of_label"]
    assert described["effective_size"] == pytest.approx(100 / (1 / law.min(axis=1)).mean())


LAYOUTS = {
    "action": "layout",
    "propensity": "p",
    "reward": "signup",
    "features": {"numeric": ["visits"], "categorical": ["device", "segment"]},
    "algorithm": "kl_dro_dr",
}


def learn(tmp_path: Path, log: Path, mapping: str) -> dict:
    """Return the answer of ``learn``."""
    output = ["--output", str(tmp_path / "policy.npz"), "--json", str(tmp_path / "answer.json")]
    assert main(["learn", str(log), "--config", mapping, *output]) == 0
    return json.loads((tmp_path / "answer.json").read_text())


def texts(answer: dict) -> str:
    """Return all sentences about the log that are not good news."""
    checks = [check["sentence"] for check in answer["diagnostics"] if check["level"] != "good"]
    return " ".join([*checks, answer["verdict"]["sentence"], *answer["verdict"]["changes"]])


def draw(probability: np.ndarray, segments: int = 3, names: str = "ABCDEFGH") -> pd.DataFrame:
    """Return a log without effects whose actions have given probabilities, (n, K)."""
    rng = np.random.default_rng(0)
    n = len(probability)
    action = draw_actions(probability, rng)
    return pd.DataFrame(
        {
            "visits": rng.poisson(3, n),
            "device": rng.choice(["mobile", "desktop"], n),
            "segment": rng.integers(0, segments, n),
            "layout": np.array([*names])[action],
            "p": probability[np.arange(n), action],
            "signup": (rng.random(n) < 0.12).astype(int),
        }
    )


@pytest.mark.parametrize(("n_actions", "rows", "segments", "p"), [(5, 400, 60, 0.2), (3, 900, 3, 0.333)])
def test_uniform_logs_have_no_rare_actions(tmp_path, n_actions, rows, segments, p):
    """Five actions in few rows, many categories, and a rounded propensity."""
    frame = draw(np.full((rows, n_actions), 1 / n_actions), segments).assign(p=p)
    frame.to_csv(tmp_path / "log.csv", index=False)
    answer = learn(tmp_path, tmp_path / "log.csv", json.dumps(LAYOUTS))
    assert answer["verdict"]["verdict"] == "not shown"
    assert not any(word in texts(answer) for word in ("hardly", "support", "cannot follow", "wrong"))
    assert all(action["unsupported"] == 0 for action in answer["actions"])
