"""Options of ``certify`` and ``evaluate_policy``: --anytime, --sensitivity and --shift, against the library."""

import json

import numpy as np
import pandas as pd
import pytest
from fixtures.reference_formulas import bound_by_loops
from fixtures.user_logs import CITIES, MAPPING, NAMES, answer_of, decisions
from scipy import stats

from drcrm import read_log
from drcrm.certificates import policy_certificate, sensitivity, upper_bound
from drcrm.cost_models.missing_cells import mark_missing
from drcrm.logs.decisions.candidates import read_algorithms
from drcrm.logs.diagnostics.check import infer_cost_range
from drcrm.logs.policy_file import read_policy
from drcrm.mapping.log_mapping import as_mapping

RULE, KAPPA = "column:mine", 0.05
SECTION = "Shift of the environment"


def weekly(n: int, seed: int = 0) -> pd.DataFrame:
    """Return decisions with the probabilities of a policy that mostly takes the right item, and a day."""
    frame = decisions(n, seed)
    right = NAMES[(pd.Index(CITIES).get_indexer(frame["city"]) + (frame["price"] > 30)) % 3]
    day = np.random.default_rng(seed).permutation(n)
    return frame.assign(mine=np.where(frame["item"] == right, 0.8, 0.1), day=day)


@pytest.fixture
def watch(answer, tmp_path):
    """Certify the policy of a column at every look; return the answer."""

    def watch(*frames: pd.DataFrame, options: tuple[str, ...] = (), anytime: bool = True, **changes) -> dict:
        paths = [tmp_path / f"week{number}.csv" for number in range(len(frames))]
        for path, frame in zip(paths, frames, strict=True):
            frame.to_csv(path, index=False)
        mapping = MAPPING | {"features": {"numeric": ["age", "price"], "categorical": ["city"]}} | changes
        config = json.dumps({key: value for key, value in mapping.items() if value is not None})
        arguments = ["certify", RULE, *paths, "--config", config, "--report", tmp_path / "r.html"]
        return answer(*arguments, *["--anytime"] * anytime, *options)[0]

    return watch


@pytest.fixture
def later(shop, tmp_path):
    """Return the learned policy, a later log, and this log in memory with the policy's features."""
    decisions(900, seed=5).to_csv(tmp_path / "later.csv", index=False)
    stored, log = read_policy(shop / "policy.npz"), read_log(tmp_path / "later.csv", MAPPING)
    return stored, tmp_path / "later.csv", log.replace(X=stored.encoding.contexts(decisions(900, seed=5)))


def bound_of(frame: pd.DataFrame, factor: float = 1.0, **options):
    """Return the bound on the cost, minus the factor times the log's cost, by loops, to compare with."""
    weight, click = (frame["mine"] / frame["p"]).to_numpy(), frame["click"].to_numpy()
    return pytest.approx(-bound_by_loops(weight, click, factor=factor, **options), abs=1e-9)


class TestAnytime:
    """Bounds that hold at every look, over several files."""

    def test_the_bounds_are_those_of_loops_over_the_rows_by_time(self, watch, tmp_path):
        weeks = weekly(1000), weekly(1000, seed=1)
        answer, frame = watch(*weeks, time="day"), pd.concat(weeks).sort_values("day", kind="stable")
        running = answer["running"]
        assert (running["n"], running["by"], running["bound"]) == (2000, "row", bound_of(frame, 0.0))
        assert running["difference_bound"] == bound_of(frame)
        assert answer["candidates"][0]["certificate"]["bound"] == running["bound"]
        assert all(bound == bound_of(frame, rows=rows) for rows, bound in running["curve"][::30])
        first = running["first_better"]
        assert [bound_of(frame, rows=rows).expected < 0 for rows in (first - 1, first)] == [False, True]
        assert f"first shown to be better after row {first}." in answer["verdict"]["sentence"]
        assert "Bound at every look" in (tmp_path / "r.html").read_text(encoding="utf-8")
        assert answer["breakeven_shift"] is None

    def test_a_certificate_for_one_look_also_has_the_bounds_at_every_look(self, watch):
        frame = weekly(1500).assign(user=np.arange(1500) // 2)
        for changes in ({"time": "day"}, {"group": "user", "most_rows": 2}):
            answer, running = (watch(frame, anytime=anytime, **changes) for anytime in (False, True))
            sentence, running = answer["verdict"]["sentence"], running["running"]
            assert answer["every_look"] == {"cost": running["bound"], "difference": running["difference_bound"]}
            assert "(now, asymptotic) and at least " in sentence
            assert "(at every look, without assumptions on tails)" in sentence
        assert answer["candidates"][0]["difference"]["bound"] < running["difference_bound"]

    def test_bounds_at_every_look_need_a_known_range_and_the_size_of_groups(self, watch):
        frame = weekly(1500).assign(user=np.arange(1500) // 2)
        for changes in ({"group": "user"}, {"shift": 0.05}, {"reward": "revenue"}):
            answer = watch(frame.assign(revenue=2.5 * frame["click"]), anytime=False, **changes)
            assert answer["verdict"]["verdict"] == "certified"
            assert answer["every_look"] is None
            assert "now, asymptotic" not in answer["verdict"]["sentence"]

    @pytest.mark.parametrize(("rows", "least", "shown"), [(900, 0.01, False), (900, None, False), (15, 0.01, True)])
    @pytest.mark.parametrize("anytime", [True, False])
    def test_a_policy_without_a_logged_action_is_never_better(self, watch, rows, least, shown, anytime):
        """Rows with each action contradict such a column, unless there are few rows."""
        frame = weekly(rows).assign(mine=0.0)
        answer = watch(frame, anytime=anytime, least_propensity=least)
        assert answer["shown"] == ("not shown" if shown else "the log cannot say")
        assert "the policy never takes a logged action" in answer["verdict"]["sentence"] or shown

    def test_a_group_is_one_unit_in_the_order_of_its_first_row(self, watch):
        frame = weekly(900).assign(user=np.random.default_rng(2).integers(0, 300, 900))
        running, users = watch(frame, group="user", most_rows=12)["running"], frame["user"]
        first = frame.groupby("user")["user"].transform(lambda group: group.index.min())
        rows = np.lexsort([np.arange(900), first])
        expected = bound_of(frame.iloc[rows], unit=users.to_numpy()[rows], most_rows=12)
        assert (running["n"], running["by"], running["difference_bound"]) == (users.nunique(), "group", expected)
        assert running["curve"][-1][0] == 900
        last = users.groupby(users).apply(lambda group: group.index.max())
        assert running["curve"][0][0] == last[users[0]] + 1

    def test_the_interval_in_per_cent_is_that_of_the_same_terms(self, watch):
        frame = weekly(1500)
        cost, weight = -frame["click"].to_numpy().astype(float), (frame["mine"] / frame["p"]).to_numpy()
        for options in ((), ("--asymptotic",)):
            candidate = watch(frame, options=options)["candidates"][0]
            origin = cost.mean() if options else weight @ cost / weight.sum()
            terms = weight * (cost - origin) + origin
            share = (terms - cost).mean() / cost.mean()
            error = stats.sem(terms - (1 + share) * cost) / abs(cost.mean())
            ends = -share + np.array([-1, 1]) * stats.t.ppf(0.975, 1499) * error
            assert [candidate["relative"][end] for end in ("low", "high")] == pytest.approx(ends, abs=1e-9)

    @pytest.mark.parametrize(
        ("changes", "key"),
        [
            ({"group": "user"}, "most_rows"),
            ({"reward": "revenue"}, "cost_range"),
            ({"reward": "revenue", "cost_range": [-2.5, 0]}, None),
        ],
    )
    def test_groups_need_their_largest_size_and_other_outcomes_their_range(self, changes, key, run, tmp_path):
        frame = weekly(300).assign(user=np.arange(300) // 2, revenue=lambda frame: 2.5 * frame["click"])
        frame.to_csv(tmp_path / "log.csv", index=False)
        config = json.dumps(MAPPING | {"features": {"numeric": ["age"]}} | changes)
        status, _, error = run("certify", RULE, tmp_path / "log.csv", "--config", config, "--anytime")
        assert (status, error and f"--anytime needs {key} in the mapping" in error) == ((1, True) if key else (0, ""))

    @pytest.mark.parametrize("rivals", [(), ("--candidates", "column:rival")])
    def test_one_error_names_all_keys_that_are_missing_and_the_values_of_the_log(self, rivals, run, tmp_path):
        frame = weekly(300).assign(user=np.arange(300) // 2, revenue=lambda frame: 2.5 * frame["click"])
        frame.assign(delay=1 - frame["revenue"], rival=frame["p"]).to_csv(tmp_path / "log.csv", index=False)
        content = MAPPING | {"features": {"numeric": ["age"]}, "reward": "revenue", "group": "user"}
        content |= {"guardrails": {"wait": {"cost": "delay", "at_most": 5}}}
        certify = "certify", RULE, tmp_path / "log.csv", "--anytime", *rivals, "--config"
        status, _, error = run(*certify, json.dumps(content))
        assert status == 1
        lacking = ["most_rows in the mapping", "(here 2)", "cost_range in the mapping", "(here [-2.5, 0.0])"]
        lacking += ["range in the guardrail 'wait', column 'delay'", "(here [-1.5, 1.0])"]
        places = [error.find(text) for text in lacking]
        assert min(places) > 0
        assert places == sorted(places)
        content |= {"most_rows": 2, "cost_range": [-2.5, 0]}
        content["guardrails"]["wait"]["range"] = [-1.5, 1]
        assert run(*certify, json.dumps(content))[0] == 0

    @pytest.mark.parametrize("is_reward", [False, True])
    def test_the_range_of_clicks_is_known_whatever_their_sign(self, is_reward):
        for costs, expected in (([0, 1], (0, 1)), ([-1, 0], (-1, 0)), ([0, 0], (-1, 0) if is_reward else (0, 1))):
            assert infer_cost_range(None, np.array(costs, dtype=float), is_reward) == expected
        assert infer_cost_range(None, np.array([-1.0, 1.0]), is_reward) is None
        assert infer_cost_range((-2, 3), np.array([0.0, 1.0]), is_reward) == (-2, 3)

    def test_inconsistent_propensities_are_not_certified(self, watch):
        answer = watch(weekly(2000).assign(p=1 / 3))
        assert (answer["verdict"]["verdict"], answer["running"]) == ("the log is wrong", None)


class TestAsymptotic:
    """Bounds of the confidence sequence, which need no range of outcomes."""

    def test_bounds_of_a_learned_policy_are_those_of_the_library_at_every_look(self, later, shop, answer):
        stored, path, log = later
        result, text = answer("certify", shop / "policy.npz", path, "--anytime", "--asymptotic")
        running, options = result["running"], {"method": "confidence_sequence", "cost_model": stored.model}
        log = mark_missing(log, stored.cells)
        for rows, bound in [*running["curve"][20::30], running["curve"][-1]]:
            part = log.recount(np.arange(900) < rows)
            expected = policy_certificate(stored.policy, part, "dr", baseline="logging", **options).bound
            assert bound == pytest.approx(expected, abs=1e-9)
        cost = policy_certificate(stored.policy, log, "dr", **options)
        assert (running["bound"], running["value"]) == pytest.approx((cost.bound, cost.value), abs=1e-9)
        assert (running["estimate"], running["asymptotic"]) == ("dr", True)
        assert result["candidates"][0]["certificate"]["estimate"] == "dr"
        assert "holds approximately with 95 % confidence: the bounds are asymptotic." in " ".join(text.split())
        plain = answer("certify", shop / "policy.npz", path, "--anytime")[0]["running"]
        assert running["difference_bound"] < plain["difference_bound"]
        assert running["first_better"] <= (plain["first_better"] or 901)
        assert plain["asymptotic"] is False

    def test_revenue_needs_no_range_and_groups_count_with_the_rows_so_far(self, watch, tmp_path):
        frame = weekly(2000).assign(user=np.random.default_rng(2).integers(0, 800, 2000))
        frame["click"] *= np.random.default_rng(3).lognormal(sigma=0.3, size=2000)
        answer = watch(frame, options=("--asymptotic",), group="user", time="day")
        running, ordered = answer["running"], frame.sort_values("day", ignore_index=True)
        for rows, bound in running["curve"][20::25]:
            seen = ordered[:rows]
            mean, weight = seen["click"].mean(), seen["mine"] / seen["p"]
            z, users = ((1 - weight) * (seen["click"] - mean)).to_numpy(), seen["user"].value_counts()
            excess = pd.Series(z - z.mean()).groupby(seen["user"].to_numpy()).sum()
            values = z.mean() + excess * (len(users) / len(z))
            assert bound == pytest.approx(upper_bound(values, method="confidence_sequence"), abs=1e-9)
        assert (running["by"], running["n"], running["curve"][0][1]) == ("group", frame["user"].nunique(), None)
        assert "because they are asymptotic" in (tmp_path / "r.html").read_text(encoding="utf-8")

    def test_rows_too_few_or_too_skewed_cannot_say(self, watch):
        skewed = weekly(300)
        skewed["click"] *= np.random.default_rng(0).lognormal(sigma=3, size=300)
        for frame, reason in ((weekly(40), "at least 50 rows"), (skewed, "% of the weighted costs")):
            answer = watch(frame, options=("--asymptotic",))
            assert answer["verdict"]["verdict"] == "the log cannot say"
            assert (answer["running"], answer["sensitivity"], answer["breakeven_shift"]) == (None, None, None)
            assert reason in answer["verdict"]["sentence"]
            assert answer["candidates"][0]["certificate"].keys() == {"refused"}
            moved = watch(frame.assign(click=frame["click"] + 500), options=("--asymptotic",))
            changes = [each["candidates"][0]["difference"]["value"] for each in (answer, moved)]
            assert changes[1] == pytest.approx(changes[0], abs=1e-9)
        assert watch(weekly(300), options=("--asymptotic",))["running"] is not None


def test_a_known_least_propensity_shows_that_no_action_is_missing(tmp_path, answer):
    """By chance, a log has too few rows with large weights, so their mean is significantly below 1."""
    frame = weekly(900)
    frame = frame[(frame["mine"] < frame["p"]) | (np.arange(900) % 2 > 0)]
    frame.to_csv(tmp_path / "log.csv", index=False)
    mapping = MAPPING | {"features": {"numeric": ["age", "price"]}}
    for keys, missing in (({}, True), ({"least_propensity": frame["p"].min()}, False)):
        config = json.dumps(mapping | keys)
        view, _ = answer("evaluate_policy", RULE, tmp_path / "log.csv", "--config", config)
        [entry] = view["candidates"]
        assert entry["certificate"]["missing"] is missing


class TestSensitivity:
    """The worst case if propensities are wrong."""

    def test_a_better_policy_has_a_factor_up_to_which_it_is_better(self, shop):
        answer = answer_of(shop / "answer.json")
        view = answer["sensitivity"]
        factor = f"{np.floor(100 * view['breakeven']) / 100:.3g}"
        assert f"every propensity's odds are off by a factor of at most {factor}." in answer["verdict"]["sentence"]
        assert view["curve"][0][2] < 0 < view["curve"][-1][2]
        assert "Sensitivity to wrong propensities" in (shop / "report.html").read_text(encoding="utf-8")

    def test_the_answer_has_the_bound_at_a_given_factor(self, shop, answer, later):
        stored, path, log = later
        view = answer("evaluate_policy", shop / "policy.npz", path, "--sensitivity", "1.3")[0]["sensitivity"]
        expected = sensitivity(stored.policy, log, 1.3, "dr", stored.model)
        values = view["gamma"], view["worst"], view["bound"]
        assert values == pytest.approx((1.3, expected.worst, expected.bound), abs=1e-9)

    def test_without_a_better_policy_only_the_option_computes_it(self, tmp_path, run, answer):
        coins = np.random.default_rng(1).integers(0, 2, 300)
        decisions(300).assign(click=coins).to_csv(tmp_path / "log.csv", index=False)
        config = json.dumps(MAPPING | {"algorithm": "cips"})
        arguments = ["learn", tmp_path / "log.csv", "--config", config, "--output", tmp_path / "p.npz"]
        assert answer(*arguments)[0]["sensitivity"] is None
        assert answer(*arguments, "--sensitivity", "2")[0]["sensitivity"] is not None
        status, _, error = run(*arguments, "--sensitivity", "0.5")
        assert (status, "'0.5', expected a number of at least 1" in error) == (2, True)


class TestShift:
    """Comparisons of worst cases around the environment, and the radius up to which a policy is better."""

    def test_the_answer_names_the_radius_and_the_share_of_the_traffic(self, shop, answer, later):
        """The matrix compares the bounds with those of the library."""
        plain, _ = answer("certify", shop / "policy.npz", later[1])
        shifted, text = answer("certify", shop / "policy.npz", later[1], "--shift", str(KAPPA))
        assert all(words in text for words in (f"under a shift of {KAPPA}", "worst case ≥"))
        assert ("shift" in plain, shifted["shift"], shifted["sensitivity"]) == (False, KAPPA, None)
        [caution] = [caution for caution in shifted["verdict"]["cautions"] if "subpopulation" in caution]
        assert "at least 95.1 % of the traffic" in caution, "e^−0.05"
        bounds = [view["candidates"][0]["certificate"]["bound"] for view in (shifted, plain)]
        assert bounds[0] > bounds[1]

    def test_a_mapping_with_shift_learns_and_compares_at_its_radius(self, tmp_path, run, answer):
        decisions(3000, seed=1).to_csv(tmp_path / "log.csv", index=False)
        mapping = {key: value for key, value in MAPPING.items() if key != "algorithm"} | {"shift": KAPPA}
        policy = tmp_path / "p.npz"
        arguments = ["learn", tmp_path / "log.csv", "--config", json.dumps(mapping), "--output", policy]
        learned, _ = answer(*arguments)
        [candidate] = [entry for entry in learned["candidates"] if entry["name"] != "logging"]
        names = learned["shift"], candidate["name"], candidate["parameter"], learned["verdict"]["verdict"]
        assert names == (KAPPA, "shift_snips", "radius", "better")
        assert f"worst-case click under a shift of {KAPPA}" in learned["verdict"]["sentence"]
        assert answer("certify", policy, tmp_path / "log.csv")[0]["shift"] == KAPPA
        for option in (["--anytime"], ["--sensitivity", "2"]):
            status, _, error = run("certify", policy, tmp_path / "log.csv", *option)
            assert (status, f"{option[0]} " in error, "leave out one of them" in error) == (1, True, True)
        status, _, error = run(*arguments, "--shift", "0")
        assert (status, "expected a number above 0" in error) == (2, True)

    def test_shipped_algorithms_take_the_radius_of_the_mapping(self):
        own = {"estimator": "EnvironmentDRO", "parameter": "radius", "grid": [0.1, 0.2]}
        for algorithms in (None, ["shift_snips", "kl_dro_dr", own]):
            entries = read_algorithms(as_mapping({"algorithm": algorithms, "shift": 0.3}))
            assert {entry.settings.shift for entry in entries} == {0.3}
            assert entries[0].grid == (0.3,)
        assert entries[2].grid == (0.1, 0.2)
        named = read_algorithms(as_mapping({"algorithm": ["kl_dro_dr", "shift_snips"]}))
        assert (entries[1].with_settings(shift=None), named[1].settings.shift) == (named[0], None)

    def test_a_better_policy_has_worst_cases_up_to_its_breakeven(self, shop):
        answer, page = answer_of(shop / "answer.json"), (shop / "report.html").read_text(encoding="utf-8")
        breakeven = f"κ = {np.floor(1000 * answer['breakeven_shift']) / 1000:g})"
        assert all(text in page for text in (SECTION, breakeven, "not the policies in every environment"))
