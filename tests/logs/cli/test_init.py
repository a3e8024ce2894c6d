"""The commands example and init: a proposed mapping is usable if all keys are certain, or names candidates."""

import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from fixtures.click_logs import draw_actions
from scipy.special import softmax

from drcrm.logs.cli.example import FILES, MAPPING, draw_visits
from drcrm.logs.read_log import read_raw_log


@pytest.fixture
def propose(run, tmp_path):
    """Return the mapping that is proposed for a table, as text and parsed."""

    def propose(frame: pd.DataFrame, *options, **csv) -> tuple[str, dict]:
        frame.to_csv(tmp_path / "log.csv", index=False, **csv)
        (tmp_path / "m.yaml").unlink(missing_ok=True)
        status, _, error = run("init", tmp_path / "log.csv", "--output", tmp_path / "m.yaml", *options)
        assert (status, error) == (0, "")
        text = (tmp_path / "m.yaml").read_text("utf-8")
        return text, yaml.safe_load(text)

    return propose


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_example_needs_no_changes(suffix, tmp_path, run):
    frame, log = draw_visits(1000, 0.7, 0)[0], tmp_path / f"log.{suffix}"
    frame.to_csv(log, index=False) if suffix == "csv" else frame.to_parquet(log, index=False)
    status, output, _ = run("init", log, "--output", tmp_path / "new/m.yaml")
    assert (status, "then learn a policy" in output) == (0, True)
    expected = yaml.safe_load(MAPPING)
    del expected["slice"]  # a choice of the user
    assert yaml.safe_load((tmp_path / "new/m.yaml").read_text("utf-8")) == expected
    assert len(read_raw_log(log, tmp_path / "new/m.yaml").Y) == 1000
    status, _, error = run("init", log, "--output", tmp_path / "new/m.yaml")
    assert (status, "exists already" in error) == (1, True)


def draw_table(n: int = 500) -> pd.DataFrame:
    """Return columns of all kinds, with names that need quotes in YAML."""
    rng = np.random.default_rng(0)
    columns = {
        "Row": np.arange(n),
        "userId": rng.integers(0, 100, n),
        "user_age": rng.integers(18, 80, n),
        "arm": rng.integers(0, 3, n),
        "action_prob": rng.uniform(0.1, 0.9, n),
        "share": rng.uniform(0.1, 0.9, n),
        "clicked": rng.integers(0, 2, n),
        "bought": rng.integers(0, 2, n),
        "created at": pd.date_range("2024-01-01", periods=n, freq="h"),
        "größe: 1": np.where(np.arange(n) % 9, rng.normal(size=n), np.nan),
        "yes": rng.choice(["a # b", "c"], n),
        "same": 7,
        "comment": [f"text {row}" for row in range(n)],
        "product_category": rng.choice(list("abc"), n),
    }
    return pd.DataFrame(columns)


@pytest.mark.parametrize("csv", [{}, {"sep": ";", "decimal": ","}, {"sep": "|"}], ids=str)
def test_uncertain_keys_are_comments(propose, csv):
    options = ["--delimiter", "|"] if csv.get("sep") == "|" else []
    text, mapping = propose(draw_table(), *options, **csv)
    assert mapping.pop("delimiter", None) == (options or [None])[-1]
    assert mapping == {
        "action": "arm",
        "propensity": "action_prob",
        "group": "userId",
        "time": "created at",
        "features": {"numeric": ["user_age", "share", "größe: 1"], "categorical": ["yes", "product_category"]},
    }
    assert {"# reward: clicked", "# reward: bought"} <= {line.partition("  #")[0] for line in text.splitlines()}
    for name in ("Row", "same", "comment"):
        assert f"# not a feature: {name} (" in text


def draw_outcomes(seed: int, lift: float) -> pd.DataFrame:
    """Return a log of a softmax policy among three offers, whose effect on the click is ``lift``."""
    rng, n = np.random.default_rng(seed), 1000
    x, tier = rng.normal(size=n), rng.choice(["gold", "silver", "basic"], n)
    p = softmax(np.outer(x, [-0.5, 0, 0.5]) + np.log([1, 1.6, 1]), axis=1)
    drawn = draw_actions(p, rng)
    click = rng.random(n) < 0.2 + lift * (drawn == 1) + 0.1 * (x > 0)
    columns = {"x": x, "tier": tier, "offer": np.array(["call", "mail", "wait"])[drawn]}
    columns |= {"propensity": p[np.arange(n), drawn], "click": click, "member": rng.integers(0, 2, n)}
    return pd.DataFrame(columns)


def test_the_only_column_of_0_and_1_is_the_reward(propose):
    _, mapping = propose(draw_outcomes(0, 0.3).drop(columns="member").rename(columns={"click": "klick"}))
    assert mapping == {
        "action": "offer",
        "propensity": "propensity",
        "reward": "klick",
        "features": {"numeric": ["x"], "categorical": ["tier"]},
    }
    text, mapping = propose(draw_outcomes(0, 0.3).rename(columns={"click": "klick", "offer": "aktion"}))
    assert mapping.keys() == {"propensity", "features"}
    assert {"# action: aktion", "# reward: klick", "# reward: member"} <= {
        line.partition("  #")[0] for line in text.splitlines()
    }


def draw_lists(n: int, name: str = "request") -> pd.DataFrame:
    """Return a table with a row for each candidate. Only chosen rows have a propensity, an outcome and a dwell time."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, n)
    request = np.repeat(np.arange(n), sizes)
    chosen = np.zeros(len(request), int)
    chosen[np.append(0, np.cumsum(sizes)[:-1]) + rng.integers(0, sizes)] = 1
    frame = pd.DataFrame({"seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(request, unit="h"), name: request})
    frame["item"] = rng.choice(["i1", "i2", "i3", "i4"], len(request))
    frame["price"] = rng.normal(size=len(request)).round(2)
    outcomes = {"p": np.repeat(1 / sizes, sizes), "click": request % 2, "dwell": rng.exponential(size=len(request))}
    outcomes = {column: np.where(chosen, values, np.nan) for column, values in outcomes.items()}
    return frame.assign(shown=chosen, **outcomes)


@pytest.mark.parametrize(("n", "name"), [(300, "request"), (300, "session_id"), (8, "request"), (2, "request")])
def test_a_row_for_each_candidate_is_a_list(propose, tmp_path, n, name):
    """Also if a time has a value for each list, and if there are few lists."""
    text, mapping = propose(draw_lists(n, name))
    columns = {"list": name, "chosen": "shown", "propensity": "p", "reward": "click"}
    assert {key: mapping.get(key) for key in columns} == columns
    features = mapping["features"]
    assert (features["numeric"], features["categorical"]) == (["price"], ["item"])
    assert "# not a feature: dwell (only chosen rows have values)" in text
    assert len(read_raw_log(tmp_path / "log.csv", tmp_path / "m.yaml").Y) == n


def test_the_last_list_may_go_on_after_the_rows_that_are_read(propose, monkeypatch):
    frame = draw_lists(300)
    is_late = (frame["shown"] == 1) & frame["request"].duplicated()  # not the first row of its list
    monkeypatch.setattr("drcrm.logs.cli.init.ROWS", int(np.flatnonzero(is_late)[-1]))
    assert propose(frame)[1]["list"] == "request"


@pytest.mark.parametrize("missing", [False, True])
def test_each_comment_on_an_uncertain_action_gives_a_mapping_that_can_be_read(propose, tmp_path, missing):
    """The user removes the # of the line, and the column from the features."""
    frame = (
        draw_outcomes(0, 0.3).rename(columns={"offer": "aktion"}).assign(wann="2024-01-02", wahl=lambda f: f["x"] > 0)
    )
    frame.loc[frame.index % 9 == 0, "tier"] = "" if missing else "basic"
    text, _ = propose(frame)
    lines = [line for line in text.splitlines() if line.startswith("# action: ") and "not certain" not in line]
    assert len(lines) == (3 if missing else 4)  # an action is never missing
    for line in lines:
        mapping = yaml.safe_load(text.replace(line, line[2:]))
        used = mapping["action"], "click"
        features = {kind: [name for name in names if name not in used] for kind, names in mapping["features"].items()}
        log = read_raw_log(tmp_path / "log.csv", mapping | {"reward": "click", "features": features})
        assert len(log.Y) == len(frame)


def test_booleans_of_several_columns_can_be_read(propose, tmp_path):
    """A column is boolean if its texts are of one pair. Texts of an action need no pair."""
    frame, rng = draw_outcomes(0, 0.3), np.random.default_rng(1)
    frame["member"], frame["vip"] = (np.where(rng.random(1000) < 0.5, *texts) for texts in (("yes", "No"), ("y", "n")))
    frame["hand"], frame["source"] = (
        rng.choice(values, 1000) for values in (["t", "f", "n"], ["yes", "no", "on", "off"])
    )
    frame.loc[:9, "vip"] = ""
    _, mapping = propose(frame)
    assert mapping["features"] == {"numeric": ["x", "member", "vip"], "categorical": ["tier", "hand", "source"]}
    X = read_raw_log(tmp_path / "log.csv", tmp_path / "m.yaml").X
    assert np.array_equal(X.columns["member"], frame["member"] == "yes")
    assert np.array_equal(X.columns["vip"][10:], frame["vip"][10:] == "y")


def test_texts_named_like_outcomes_are_features_if_their_name_has_another_word(propose):
    frame, rng = draw_outcomes(0, 0.3), np.random.default_rng(1)
    texts = {name: rng.choice(["aa", "bb", "cc"], 1000) for name in ("click_source", "cost_center", "Conversion_2")}
    text, mapping = propose(frame.assign(**texts))
    assert mapping["features"]["categorical"] == ["tier", "click_source", "cost_center"]
    assert "# not a feature: Conversion_2 (its name suggests a reward)" in text


def test_outcomes_are_neither_features_nor_rivals_of_the_reward(propose):
    rng, frame = np.random.default_rng(5), draw_outcomes(0, 0.3)
    before = {"item_rating": rng.integers(1, 6, 1000), "p_churn": rng.uniform(0.01, 1, 1000)}
    after = {"unsubscribed": rng.integers(0, 2, 1000), "signup": rng.integers(0, 2, 1000)}
    text, mapping = propose(frame.assign(**before, **after))
    assert (mapping["action"], mapping["propensity"], mapping["reward"]) == ("offer", "propensity", "click")
    assert mapping["features"] == {"numeric": ["x", "member", *before], "categorical": ["tier"]}
    for name in after:
        assert f"# not a feature: {name} (its name suggests an outcome" in text


def test_without_propensities_the_mapping_says_how_to_estimate_them(propose, tmp_path, run):
    frame = draw_table().drop(columns=["action_prob", "bought"])
    text, mapping = propose(frame)
    assert "propensity" not in mapping
    assert "# propensity: share  # 500 values from 0.1" in text
    estimated = text.replace("# propensity: null", "propensity: null").replace("# propensity_model", "propensity_model")
    raw_log = read_raw_log(tmp_path / "log.csv", yaml.safe_load(estimated))
    assert (raw_log.propensity, len(raw_log.Y)) == (None, 500)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.csv", "", "has no rows"),
        ("log.csv", "a,b\n", "has no rows"),
        ("log.dsjson", "{}\n", "is dsjson, which needs no mapping"),
        ("log.xlsx", "", "has no rows"),
    ],
)
def test_logs_without_columns_to_map_are_one_line(name, content, message, tmp_path, run):
    (tmp_path / name).write_text(content)
    status, _, error = run("init", tmp_path / name)
    assert (status, error.count("\n")) == (1, 1)
    assert message in error


def test_a_comma_is_a_decimal_sign_unless_it_may_separate_thousands(propose, tmp_path):
    """The log can be read with the proposed mapping, and a column with unclear commas is a candidate."""
    frame = draw_outcomes(0, 0.3).rename(columns={"click": "revenue"}).drop(columns="member")
    features = {"numeric": ["x"], "categorical": ["tier"]}
    _, mapping = propose(frame.round(2).assign(revenue=frame["x"].round(2)), sep=";", decimal=",")
    expected = {"action": "offer", "propensity": "propensity", "features": features}
    assert mapping == expected | {"reward": "revenue"}
    assert np.allclose(-read_raw_log(tmp_path / "log.csv", mapping).cost, frame["x"].round(2))
    for form in ("{:,}", "{:,}.5"):
        text, mapping = propose(frame.assign(revenue=[form.format(1100 + row) for row in range(len(frame))]))
        assert mapping == expected
        assert "\n# reward: revenue  # 1000 values: 1,100" in text


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_with_empty_cells(tmp_path, run, suffix):
    """Columns without values are left out. Dates may be missing in features, but not in the key time."""
    frame, log, output = draw_outcomes(0, 0.3), tmp_path / f"log.{suffix}", tmp_path / "m.yaml"
    has_value, when = (
        np.arange(len(frame)) % 3 > 0,
        pd.Series(pd.date_range("2024-01-01", periods=len(frame), freq="h")),
    )
    frame["visit"], frame["notes"], frame["day"] = when.where(has_value), None, when.dt.strftime("%d.%m.%Y")
    frame["born"], frame["score"] = frame["day"].where(has_value), np.nan
    frame["tags"] = [["a"] if value else None for value in has_value] if suffix == "parquet" else None
    frame.to_csv(log, index=False) if suffix == "csv" else frame.to_parquet(log, index=False)
    assert run("init", log, "--output", output)[0] == 0
    text = output.read_text("utf-8")
    mapping = yaml.safe_load(text)
    assert (mapping["reward"], mapping["time"], mapping["features"]["time"]) == ("click", "day", ["visit", "born"])
    assert {"# not a feature: notes (no values)", "# not a feature: score (no values)"} <= {*text.splitlines()}
    assert len(read_raw_log(log, output).Y) == len(frame)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.where(p.index != 3, 0),
        lambda p: p.where(p.index < 980),
        lambda p: p * np.nan,
        lambda p: 100 * p,
        lambda p: [f"{100 * x:.2f}%" for x in p],
    ],
)
def test_obstacles_to_propensities_are_named(propose, change):
    """Estimated propensities are not proposed if there are others."""
    frame = draw_outcomes(0, 0.3).rename(columns={"propensity": "p"})
    text, mapping = propose(frame.assign(p=change(frame["p"])))
    assert (mapping["reward"], "propensity" in mapping, "propensity_model" in text) == ("click", False, False)
    [line] = [line for line in text.splitlines() if line.startswith("# propensity: p  # ")]
    assert "expected numbers in (0, 1] in all rows" in line


def test_obstacles_to_rewards_are_named(propose):
    """A reward that cannot be read is not replaced by another column of 0 and 1."""
    frame = draw_outcomes(0, 0.3).drop(columns="click")
    text, mapping = propose(frame.assign(revenue="$0.35", **{"cost\n2": ["$1", "$2"] * 500}))
    assert mapping.keys() == {"action", "propensity", "features"}
    assert "# reward: revenue  # 1 values: $0.35; expected different numbers" in text
    assert '# cost: "cost\\n2"  # 2 values: $1, $2; expected different numbers' in text
    assert "# reward: member" not in text
    _, mapping = propose(frame.assign(clicks=[0, 1] * 500, reward=["$1", "$2"] * 500))
    assert mapping["reward"] == "clicks"


def test_several_files_nested_columns_and_the_margin_of_a_sale(run, tmp_path):
    """The first file shows the columns. Lists cannot be read, and a margin may be the reward, but is no feature."""
    rng = np.random.default_rng(0)
    for week in (1, 2):
        rows = [
            {"offer": f"o{rng.integers(3)}", "chance": 1 / 3, "bought": int(rng.integers(2)), "items": [{"id": 1}]}
            for _ in range(50)
        ]
        frame = pd.DataFrame(rows).assign(margin_eur=rng.normal(size=50) * [row["bought"] for row in rows])
        frame.to_json(tmp_path / f"week{week}.jsonl", orient="records", lines=True)
    logs = tmp_path / "week1.jsonl", tmp_path / "week2.jsonl"
    status, printed, _ = run("init", *logs, "--output", tmp_path / "m.yaml")
    assert (status, "lacks reward" in printed) == (0, True)
    text = (tmp_path / "m.yaml").read_text("utf-8")
    assert text.startswith("# Proposed by drcrm init from the first values of week1.jsonl, week2.jsonl.")
    assert (
        "# not read: items, which has lists or maps. If it lists candidates, write instead of an action: list: items"
        in text
    )
    assert yaml.safe_load(text) == {"action": "offer", "propensity": "chance", "features": {}}
    assert "# reward: margin_eur" in text


def test_the_next_command_runs(tmp_path, run, monkeypatch):
    status, output, error = run("example", tmp_path / "new folder")
    assert (status, error) == (0, "")
    assert sorted(path.name for path in (tmp_path / "new folder").iterdir()) == sorted(FILES)
    monkeypatch.chdir(tmp_path)
    shop, mapping = tmp_path / "new folder/shop.csv", tmp_path / "new folder/shop.yaml"
    pd.read_csv(shop).head(400).to_csv(shop, index=False)
    mapping.write_text(f"{MAPPING}algorithm: cips\n")
    program, *arguments = shlex.split(output.splitlines()[-1])
    assert (program, run(*arguments)[0]) == ("drcrm", 0)
    assert (tmp_path / "new folder/report.html").exists()


def test_no_file_is_overwritten(tmp_path, run):
    (tmp_path / "rule.csv").write_text("mine")
    status, _, error = run("example", tmp_path)
    assert (status, "rule.csv exists already" in error, len([*tmp_path.iterdir()])) == (1, True, 1)
    assert "is a file, expected a folder" in run("example", tmp_path / "rule.csv")[2]
