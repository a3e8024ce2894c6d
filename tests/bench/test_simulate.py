"""Simulators have the truth that they state, and logs of the policies that they name."""

import numpy as np
import pytest
from scipy.special import expit

from drcrm import BanditLog, CostModel, cross_fit, off_policy_value, simulate
from drcrm.bench.estimators import ClusterModel
from drcrm.errors import InputError


def by_base_class(simulator, policy):
    """Return the Monte Carlo cost of a simulator that has a closed form."""

    class Drawn(type(simulator)):
        population = simulate.Simulator.population

    drawn = Drawn.__new__(Drawn)
    vars(drawn).update(vars(simulator))
    return drawn.true_cost(policy, 10_000)


def labelled(n=400):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, n)
    return simulate.Labelled(rng.normal(size=(n, 2)) + 2 * np.eye(3)[y, :2], np.array(list("cab"))[y])


@pytest.mark.parametrize("simulator", [simulate.KallusMaoWangZhou(), labelled()])
def test_closed_forms_agree_with_monte_carlo(simulator):
    for policy in (simulate.Uniform(), simulate.EpsilonGreedy(0.2), simulate.Softmax(-2)):
        exact, drawn = simulator.true_cost(policy), by_base_class(simulator, policy)
        assert exact.standard_error == 0 < drawn.standard_error < 0.01
        assert drawn.value == pytest.approx(exact.value, abs=4 * drawn.standard_error + 1e-12)


def test_the_uniform_policy_on_log_linear_clicks_has_a_one_dimensional_integral():
    """x·θ_a is normal with the variance |θ_a|²/d."""
    simulator = simulate.Linear(actions=6, features=3, clusters=2, within=0.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    scale = np.linalg.norm(simulator.coef, axis=0) / np.sqrt(3)
    truth = -(weights / weights.sum() @ expit(-1 + nodes[:, None] * scale)).mean()
    value = simulator.true_cost(simulate.Uniform(), 50_000)
    assert value.value == pytest.approx(truth, abs=4 * value.standard_error)
    assert value.standard_error < 0.001


def test_regions_of_zhou_athey_and_wager_are_those_of_a_grid():
    grid = (np.arange(400) + 0.5) / 400
    x, y = np.meshgrid(grid, grid)
    in_c = ((x / 0.6) ** 2 + (y / 0.35) ** 2 < 1) | (((x - 1) / 0.4) ** 2 + ((y - 1) / 0.35) ** 2 < 1)
    in_a = (x < 0.6) & (y > 0.35) & ~in_c
    best = -(1.5 * in_c + 3 * in_a + 2 * ~(in_c | in_a)).mean()
    problem = simulate.ZhouAtheyWager()
    value = problem.true_cost(simulate.EpsilonGreedy(0), 50_000)
    assert value.value == pytest.approx(best, abs=4 * value.standard_error)
    sample = problem.draw(20_000)
    second = sample.logging[:, 1]
    assert np.mean(second == 0.2) == pytest.approx(in_c.mean(), abs=0.015)
    residual = sample.log.cost + sample.scores[np.arange(20_000), sample.log.Y]
    assert np.var(residual) == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("kind", [simulate.Linear, simulate.Quadratic, simulate.Interaction])
def test_logs_have_the_actions_and_costs_of_their_policy(kind):
    simulator, n = kind(actions=5, features=4, seed=2), 5000
    assert (simulator.feature_map(np.random.default_rng(0).normal(size=(n, 4))) ** 2).sum(axis=1).mean() == (
        pytest.approx(1, abs=0.1)
    )
    sample = simulator.draw(n, simulate.Softmax(3), seed=[1, 2])
    log, rows = sample.log, np.arange(n)
    assert sample.logging == pytest.approx(sample.probabilities(simulate.Softmax(3)))
    assert log.propensity == pytest.approx(sample.logging[rows, log.Y])
    shares = np.bincount(log.Y, minlength=5) / n
    assert shares == pytest.approx(sample.logging.mean(axis=0), abs=4 * np.sqrt(0.25 / n))
    error = log.cost + sample.scores[rows, log.Y]
    assert error.mean() == pytest.approx(0, abs=4 * error.std() / np.sqrt(n))
    assert {*np.unique(log.cost)} == {-1.0, 0.0}
    again = simulator.draw(n, simulate.Softmax(3), seed=[1, 2]).log
    np.testing.assert_array_equal(again.cost, log.cost)


def test_actions_of_a_cluster_share_their_costs_and_unsupported_actions_are_not_logged():
    simulator = simulate.Linear(actions=12, clusters=3, features=3)
    _, costs = simulator.draw_contexts(50, np.random.default_rng(0))
    assert costs[:, 3:] == pytest.approx(costs[:, :-3])
    differences = simulate.Linear(actions=12, clusters=3, features=3, within=0.5).coef - simulator.coef
    assert differences.std() == pytest.approx(0.5, abs=0.2)
    sample = simulator.draw(2000, simulate.Uniform(unsupported=0.4))
    assert len(np.unique(sample.log.Y)) == 12 - int(0.4 * 12)


def test_values_of_action_features_are_digits_that_add_their_vectors():
    """A click rate has the log-odds −1 + φ(x)·(u_i + v_j)/√2 for the values i and j of an action."""
    simulator = simulate.Linear(actions=12, features=3, action_features=[2, 3])
    assert simulator.action_features[:7].tolist() == [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2], [0, 0]]
    assert len(np.unique(simulator.clusters)) == 6
    vectors = simulator.coef
    np.testing.assert_allclose(vectors[:, 6:], vectors[:, :6], err_msg="actions with equal features")
    of_grid = vectors[:, :6].reshape(3, 3, 2)  # by j and i
    interaction = of_grid - of_grid.mean(axis=1, keepdims=True) - of_grid.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(interaction, -of_grid.mean(axis=(1, 2), keepdims=True) + 0 * of_grid, atol=1e-12)
    many = simulate.Linear(actions=10_000, features=3, action_features=[100, 100]).coef
    assert many.std() == pytest.approx(1, abs=0.2)
    X, costs = simulator.draw_contexts(50, np.random.default_rng(0))
    np.testing.assert_allclose(costs, -expit(-1 + X @ vectors / np.sqrt(3)))
    assert simulator.true_cost(simulate.Softmax(2)).standard_error < 0.001
    with pytest.raises(InputError, match="leave one of them out"):
        simulate.Linear(clusters=3, action_features=[3])


def test_a_cost_model_of_clusters_pools_actions_with_equal_features():
    """It is the ridge regression on a log of clusters, and needs no row of an action to model its cost."""
    simulator = simulate.Linear(actions=600, features=3, action_features=[2, 3])
    log = simulator.draw(1500, simulate.Uniform()).log
    of_clusters = BanditLog(log.X, log.Y % 6, log.propensity, log.cost, n_actions=6)
    expected = CostModel().fit(of_clusters, action_intercepts=True)
    model = ClusterModel(simulator.clusters)
    fitted = cross_fit(log, model)
    effects = model.fit(log).effects(log.X, log.actions)
    np.testing.assert_allclose(effects, expected.effects(log.X)[:, np.arange(600) % 6], atol=1e-9)
    assert np.var(fitted.values - effects) < np.var(effects)
    with pytest.raises(InputError, match="one action of K"):
        ClusterModel([0, 1]).fit(BanditLog(np.eye(3), np.eye(3, dtype=int), np.ones(3), np.zeros(3)))


def test_drift_ends_at_the_costs_of_the_future():
    still, drifting = simulate.Linear(features=3), simulate.Linear(features=3, drift=2)
    X, costs = drifting.draw_contexts(1000, np.random.default_rng(0))
    np.testing.assert_array_equal(costs, still.draw_contexts(1000, np.random.default_rng(0))[1])
    logged = drifting.logged_costs(X, costs)
    np.testing.assert_array_equal(logged[-1], costs[-1])
    change = np.abs(logged - costs).mean(axis=1)
    assert change[:100].mean() > 2 * change[400:500].mean() / 1.5 > 0
    assert still.logged_costs(X, costs) is costs
    assert drifting.true_cost(simulate.Softmax(2), 2000) == still.true_cost(simulate.Softmax(2), 2000)


def test_policies_and_simulators_are_made_by_name(tmp_path, monkeypatch):
    (tmp_path / "own_problem.py").write_text(
        "import numpy as np\nfrom drcrm import simulate\n\n\n"
        "class Coin(simulate.Simulator):\n    def draw_contexts(self, n, rng):\n"
        "        return np.ones((n, 1)), np.tile([-0.2, -0.6], (n, 1))\n\n\n"
        "def tilt(X, scores):\n    return scores\n"
    )
    monkeypatch.chdir(tmp_path)
    coin = simulate.make_simulator("own_problem:Coin")
    greedy = simulate.make_policy({"epsilon_greedy": {"epsilon": 0.5}})
    assert coin.true_cost(greedy) == pytest.approx((-0.5, 0), abs=1e-12)
    log = coin.draw(4000, greedy).log
    assert off_policy_value(simulate.Uniform()(log.X, np.zeros((4000, 2))), log, cost_model=cross_fit(log)) == (
        pytest.approx(-0.4, abs=0.05)
    )
    assert simulate.make_simulator({"linear": {"actions": 3}}).coef.shape == (5, 3)
    for value in ("poisson", {"softmax": {"heat": 1}}, {"uniform": {"unsupported": 1}}, "own_problem:tilt"):
        with pytest.raises(InputError, match="policy"):
            simulate.make_policy(value)
    with pytest.raises(InputError, match="add up to 1 in each row"):
        coin.draw(10, lambda X, scores: scores)
    with pytest.raises(InputError, match="at least 1"):
        simulate.Linear(actions=0)
