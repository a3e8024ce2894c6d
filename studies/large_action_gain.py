"""What does KL-DRO on doubly robust costs gain from its tilted start, with 300 to 5000 actions?

The simulator is ``simulate.Linear`` with 30 clusters of actions, as in the experiment `large_action_sets`. The logging
policy is softmax(x·B). Its coefficients B are those of the log-odds, plus noise of the same size. A fit has 2000 rows,
the radius 0.01 and at most 100 iterations, and starts at the logging policy tilted by the cost model.

The table has a row per number of actions and policy: the mean of the click rate (``value``) over ``logs``, with its
``standard_error``, and of the ``gain`` over the policy before it, with its ``gain_error``. Click rates are exact means
over 4000 new contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from cells import number, table_of
from scipy.special import softmax

from drcrm import KLDRO, SoftmaxPolicy, simulate

ACTIONS, ROWS, CONTEXTS = (300, 1000, 5000), 2000, 4000
POLICIES = {"logging": "logging policy", "start": "tilted start", "fit": "`kl_dro_dr`"}
STOPPED = 1e9  # a tolerance at which a fit ends at its start


def measure(repetition: int, actions: Sequence[int] = ACTIONS) -> Iterator[dict]:
    """Yield the click rate of each policy at each number of actions."""
    for count in actions:
        problem = simulate.Linear(actions=count, clusters=30, within=0.3, seed=repetition)
        rng = np.random.default_rng([repetition, count])
        logging = SoftmaxPolicy((problem.coef + rng.normal(size=problem.coef.shape)) / np.sqrt(problem.features))
        log = problem.draw(ROWS, lambda X, _, coef=logging.coef: softmax(X @ coef, axis=1), rng).log
        X, costs = problem.draw_contexts(CONTEXTS, rng)
        policies = {"logging": logging}
        for name, tolerance in {"start": STOPPED, "fit": KLDRO().tol}.items():
            learner = KLDRO(0.01, estimate="dr", start="model", tilt="auto", fit_intercept=False, tol=tolerance)
            fit = learner.set_params(max_iter=100).fit(
                log.X, log.Y, propensity=log.propensity, cost=log.cost, logging_policy=logging, n_actions=count
            )
            policies[name] = fit.policy_
        rates = {name: -float((policy.marginals(X) * costs).sum(axis=1).mean()) for name, policy in policies.items()}
        for before, name in zip(("logging", *rates), rates, strict=False):
            yield {"actions": count, "policy": name, "rate": rates[name], "gain": rates[name] - rates[before]}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean click rates and gains."""
    groups = rows.groupby(["actions", "policy"], sort=False)
    table = groups["rate"].agg(value="mean", standard_error="sem", logs="size")
    gains = groups["gain"].agg(gain="mean", gain_error="sem")
    return table.join(gains).reset_index()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return click rates, and the gain of the fit over its start."""
    rows = []
    for actions, of_actions in table.groupby("actions"):
        cells = of_actions.set_index("policy")
        rates = (f"{number(row.value)} ± {number(row.standard_error)}" for row in cells.itertuples())
        gain = f"{number(cells.loc['fit', 'gain'], sign='+')} ± {number(cells.loc['fit', 'gain_error'])}"
        rows.append((str(actions), *rates, gain))
    return table_of(("actions", *POLICIES.values(), "gain over the start"), rows)
