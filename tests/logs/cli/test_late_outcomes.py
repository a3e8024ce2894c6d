"""certify on the log that a policy was learned from, whose outcomes have changed since."""

import json

import numpy as np
import pandas as pd
import pytest

from drcrm.logs.decisions.question import HELDOUT_ROWS
from drcrm.logs.policy_file import read_policy

N = 1000
MAPPING = {"action": "a", "propensity": "p", "reward": "click", "features": {"numeric": ["x"]}, "algorithm": "cips"}


def visits(seed: int, levels: int = 0) -> pd.DataFrame:
    """Return rows in which the action 1 is better if x > 0, and whose ids are beyond 2⁵³."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=N), rng.integers(0, 2, N)
    x = x if not levels else np.round(x * levels / 4)
    click = (rng.random(N) < 0.2 + 0.5 * (a == (x > 0))).astype(int)
    frame = pd.DataFrame({"x": x, "a": a, "p": 0.5, "click": click, "id": 2**60 + seed * N + np.arange(N)})
    return frame.assign(sale=10 * (rng.random(N) < 0.5) * click)


def late(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(click=np.where(np.random.default_rng(9).random(N) < 0.05, 1, frame["click"]))


def learn(run, folder, frame: pd.DataFrame, **keys) -> None:
    frame.to_csv(folder / "monday.csv", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING | keys))
    assert run("learn", folder / "monday.csv", "--config", folder / "map.json", "--output", folder / "p.npz")[0] == 0


@pytest.fixture
def certify(answer, tmp_path):
    """Certify the learned policy on a frame; return the answer."""

    def certify(frame: pd.DataFrame, *options) -> dict:
        frame.to_csv(tmp_path / "friday.csv", index=False)
        return answer("certify", tmp_path / "p.npz", tmp_path / "friday.csv", *options)[0]

    return certify


@pytest.mark.parametrize(
    ("levels", "keys", "order"),
    [(4, {}, "as before"), (4, {}, "shuffled"), (4, {"id": "id"}, "shuffled")],
)
def test_rows_are_recognised_although_their_outcomes_changed(levels, keys, order, tmp_path, run, certify):
    monday = visits(0, levels)
    learn(run, tmp_path, monday, **keys)
    friday = late(monday).sample(frac=1, random_state=0) if order == "shuffled" else late(monday)
    answer = certify(friday)
    if levels and not keys and order == "shuffled":  # equal rows are no evidence, and the order is another
        assert answer["recognised"] == {"training": 0, "heldout": 0, "new": N}
        assert any("cannot tell whether they trained the policy" in text for text in answer["verdict"]["cautions"])
        return
    heldout = read_policy(tmp_path / "p.npz", with_rows=True).rows.heldout
    assert answer["recognised"] == {"training": N - heldout.sum(), "heldout": heldout.sum(), "new": 0}
    assert answer["judged_by"] == HELDOUT_ROWS
    current = late(monday)["click"].to_numpy()[heldout].mean()
    assert answer["logging"]["value"] == pytest.approx(-current)
    assert abs(current - monday["click"][heldout].mean()) > 0.01


@pytest.mark.parametrize("form", ["dsjson", "npz"])
def test_formats_without_columns_identify_rows_by_their_ids(form, tmp_path, run, answer):
    """EventId of dsjson and the array id of npz; a value may be beyond 2⁵³."""

    def write(name: str, frame: pd.DataFrame) -> list:
        path = tmp_path / f"{name}.{form}"
        if form == "npz":
            arrays = {"X": frame[["x"]], "Y": frame["a"], "propensity": frame["p"], "reward": frame["click"]}
            np.savez(path, **arrays, id=frame["id"])
            return [path]
        events = [
            {
                "EventId": str(row.id),
                "_label_cost": -row.click,
                "_label_probability": row.p,
                "_label_Action": row.a + 1,
                "_labelIndex": row.a,
                "a": [1, 2],
                "p": [0.5, 0.5],
                "c": {"x": row.x, "_multi": [{"i": "a"}, {"i": "b"}]},
            }
            for row in frame.itertuples()
        ]
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        return [path]

    monday, policy = visits(0, levels=4), tmp_path / "p.npz"
    config = json.dumps({"algorithm": "cips"})
    assert run("learn", *write("monday", monday), "--config", config, "--output", policy)[0] == 0
    friday = pd.concat([late(monday), visits(5, levels=4)]).sample(frac=1, random_state=0)
    for frame, old in ((friday, N), (visits(6, levels=4), 0)):
        counts = answer("certify", policy, *write("friday", frame))[0]["recognised"]
        assert (counts["training"] + counts["heldout"], counts["new"]) == (old, N)


def test_a_second_outcome_is_certified_on_the_heldout_rows_without_the_cost_model_of_the_first(tmp_path, run, certify):
    monday = visits(1)
    learn(run, tmp_path, monday, algorithm="kl_dro_dr")
    config = json.dumps(MAPPING | {"reward": "sale"})
    answer = certify(pd.concat([monday, visits(2)]), "--config", config)
    heldout = read_policy(tmp_path / "p.npz", with_rows=True).rows.heldout
    assert answer["recognised"] == {"training": N - heldout.sum(), "heldout": heldout.sum(), "new": N}
    assert answer["candidates"][0]["certificate"]["estimate"] == "snips"
    rows = pd.concat([monday[heldout], visits(2)])
    assert answer["logging"]["value"] == pytest.approx(-rows["sale"].mean())
    arguments = ["certify", tmp_path / "p.npz", tmp_path / "friday.csv", "--config", config, "--estimate", "dr"]
    assert "a cost model of this outcome" in run(*arguments)[2]
