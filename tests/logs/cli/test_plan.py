"""``drcrm plan``: the numbers of the library, what the text says, and errors."""

import json

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import answer_of, decisions

from drcrm.evaluation.bounds.asymptotic_bounds import smallest_difference


@pytest.fixture
def plan(answer):
    return lambda *arguments: answer("plan", *arguments)


def test_a_policy_is_planned_with_the_evaluation_of_its_rows(plan, shop):
    answer, _ = plan(shop / "log.csv", "--policy", shop / "policy.npz", "--choices", "3")
    learned = answer_of(shop / "answer.json")
    difference = next(entry for entry in learned["candidates"] if entry["chosen"])["difference"]
    assert answer["tested"]["difference"] == pytest.approx(
        {key: difference[key] for key in answer["tested"]["difference"]}
    )
    deviation = difference["standard_error"] * np.sqrt(learned["log"]["heldout"])
    first = answer["sizes"][0]
    assert first["rows"] == 3000
    assert first["difference"] == pytest.approx(smallest_difference(3000, deviation, choices=3))
    later = plan(shop / "later.parquet", "--policy", shop / "policy.npz")[0]
    assert [size["rows"] for size in later["sizes"]] == [2000, 4000, 8000, 16_000]


def test_without_a_policy_the_plan_is_for_the_hardest_action(plan, shop):
    answer, text = plan(shop / "log.csv", "--config", shop / "map.json")
    assert f"always taking '{answer['tested']['action']}'" in text or "…" in text
    frame = decisions(3000)
    rows = np.array(frame["item"] == answer["tested"]["action"])
    weight = (rows / frame["p"]).to_numpy()
    assert answer["tested"]["effective_size"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    value = np.average(frame["click"], weights=weight)
    terms = weight / weight.mean() * (frame["click"] - value) - (frame["click"] - frame["click"].mean())
    assert answer["deviation"] == pytest.approx(terms.std(), rel=0.01)


@pytest.mark.parametrize(("seed", "rows", "low"), [(42, 2500, 0.002), (63, 3000, 0.003), (1, 400, 0.0025)])
def test_a_rare_action_has_a_plan(plan, tmp_path, seed, rows, low):
    """The smallest difference falls like 1/√n, whatever the number of rows with the action; few are a note."""
    rng = np.random.default_rng(seed)
    u = rng.random(rows)
    q = np.where(u < 0.5, low, 0.3 if seed != 1 else low)
    is_rare = rng.random(rows) < q
    is_rare[0] = True
    columns = {"u": u, "item": np.where(is_rare, "b", "a"), "p": np.where(is_rare, q, 1 - q)}
    frame = pd.DataFrame(columns).assign(click=(rng.random(rows) < 0.15 + 0.1 * is_rare).astype(int))
    frame.to_csv(tmp_path / "rare.csv", index=False)
    mapping = {"action": "item", "propensity": "p", "reward": "click", "features": {"numeric": ["u"]}}
    answer, text = plan(tmp_path / "rare.csv", "--config", json.dumps(mapping))
    differences = np.array([size["difference"] for size in answer["sizes"]])
    assert differences[:-1] / differences[1:] == pytest.approx(np.sqrt(2))
    assert ("so the plan is rough" in text) == (answer["tested"]["effective_size"] < 100)


def test_errors(run, shop, tmp_path):
    status, _, error = run("plan", shop / "log.csv")
    assert (status, "plan without --policy needs --config" in error) == (1, True)
    assert run("plan", shop / "log.csv", "--config", shop / "map.json", "--choices", "0")[0] == 2
