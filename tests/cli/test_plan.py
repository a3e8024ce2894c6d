"""``drcrm plan``: the numbers of the library, what the text says, and errors."""

import json

import numpy as np
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm.certificates.sample_size import OneLook


@pytest.fixture
def plan(answer):
    return lambda *arguments: answer("plan", *arguments)


def test_a_policy_is_planned_with_the_evaluation_of_its_rows(plan, shop):
    answer, text = plan(shop / "log.csv", "--policy", shop / "policy.npz", "--choices", "3")
    learned = answer_of(shop / "answer.json")
    difference = next(entry for entry in learned["candidates"] if entry["chosen"])["difference"]
    assert answer["tested"]["difference"] == pytest.approx(
        {key: difference[key] for key in answer["tested"]["difference"]}
    )
    assert answer["tested"]["choices"] == learned["choices"]
    value, error = difference["value"], difference["standard_error"]
    assert answer["expected"] == pytest.approx(value * (1 - error**2 / value**2))
    first = answer["plans"][0]["sizes"][0]
    assert first["rows"] == 3000
    look = OneLook(error * np.sqrt(learned["log"]["heldout"]), choices=3)
    assert look.smallest_difference(3000) <= first["difference"] <= 1.15 * look.smallest_difference(3000)
    assert first["anytime_difference"] > first["difference"]
    assert f"shrunk to +{-answer['expected']:.3f} because {learned['choices']} candidates competed" in text


def test_a_later_log_needs_no_shrinking(plan, shop):
    answer, text = plan(shop / "later.parquet", "--policy", shop / "policy.npz")
    assert answer["expected"] == answer["tested"]["difference"]["value"]
    assert "shrunk" not in text
    assert [size["rows"] for size in answer["plans"][0]["sizes"]] == [2000, 4000, 8000, 16_000]


def test_without_a_policy_the_plan_is_for_the_hardest_action(plan, shop):
    answer, text = plan(shop / "log.csv", "--config", shop / "map.json")
    assert answer["expected"] is None
    assert f"always taking '{answer['tested']['action']}'" in text or "…" in text
    by_rows = [size["difference"] for size in answer["plans"][2]["sizes"]]
    assert by_rows == sorted(by_rows, reverse=True)
    # one look: like 1/√n up to the correction for skewness
    assert by_rows[0] / by_rows[2] == pytest.approx(2, rel=0.05)
    frame = decisions(3000)
    rows = np.array(frame["item"] == answer["tested"]["action"])
    weight = (rows / frame["p"]).to_numpy()
    place = answer["log"]["actions"].index(answer["tested"]["action"])
    assert answer["plans"][0]["actions"][place] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert answer["uniform"]["value"] == pytest.approx(
        frame["click"].mean() - np.average(frame["click"], weights=1 / frame["p"]), abs=1e-9
    )
    assert answer["plans"][3]["cost"] == pytest.approx(0.05 * answer["uniform"]["value"])


def test_missing_actions_are_named(plan, tmp_path):
    frame = decisions(4000)
    frame = frame[(frame["city"] != "Bern") | (frame["item"] != "news")]
    frame.to_csv(tmp_path / "log.csv", index=False)
    answer, text = plan(tmp_path / "log.csv", "--config", json.dumps(MAPPING))
    missing = dict(zip(answer["log"]["actions"], answer["missing"], strict=True))
    assert missing["news"] > 0.1
    assert "the log lacks news" in text


def test_errors(run, shop, tmp_path):
    status, _, error = run("plan", shop / "log.csv")
    assert (status, "plan without --policy needs --config" in error) == (1, True)
    assert run("plan", shop / "log.csv", "--config", shop / "map.json", "--choices", "0")[0] == 2
