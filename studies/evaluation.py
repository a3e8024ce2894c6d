"""How accurate are estimates of policies' costs on simulated logs? For experiments of the kind ``evaluation``.

The options are the keys of such an experiment. In each repetition, each logging policy draws a log of each size, and
all estimators evaluate all policies on it, with one cross-fitted cost model. Data sets are simulators too:
``simulate.Labelled``.

The table has a row per simulator, logging policy, policy, n (rows) and estimator, over ``logs``: bias, variance, mean
squared error ``mse``, its root ``rmse``, and ``relative``, the rmse divided by the least one. ``coverage`` is the share
of 95 % intervals that contain the true cost, and ``width`` their mean width. NAME_error is a standard error; that of
``relative`` is paired by log. ``truth_error`` is the Monte Carlo error of the true cost. ``square_50`` is the median of
the squared errors, and so on for other quantiles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cells import number, table_of

from drcrm import cross_fit, make_estimator, off_policy_value, simulate
from drcrm.bench.estimators import CLUSTERS, OF_CLUSTERS, ClusterModel
from drcrm.paper.array_files import read_truth
from drcrm.paper.reports.evaluation_results import QUANTILES
from drcrm.paper.runs import entries
from drcrm.paper.simulation import generator
from drcrm.selection.fit_settings import make_object

KEYS = ["simulator", "logging", "policy", "n", "estimator"]


@cache
def read_dataset(path: Path) -> simulate.Labelled:
    """Return the simulator of a data set with one class per row."""
    X, truth = read_truth(path)
    return simulate.Labelled(np.asarray(X), truth.labels)


@cache
def make_worlds(simulators: str, policies: str) -> dict[str, tuple[Any, dict[str, simulate.TrueCost]]]:
    """Return the simulators of an experiment, from JSON, with the true costs of the policies."""
    made = {name: simulate.make_simulator(value) for name, value in json.loads(simulators).items()}
    return {name: (simulator, true_costs(simulator, json.loads(policies))) for name, simulator in made.items()}


def true_costs(simulator: Any, policies: Mapping[str, Any]) -> dict[str, simulate.TrueCost]:
    return {name: simulator.true_cost(make_policy(value, simulator)) for name, value in policies.items()}


def make_policy(value: Any, simulator: Any) -> simulate.PolicyFunction:
    return simulator.logging_policy if value == simulate.OWN else simulate.make_policy(value)


def estimators_of(values: Mapping[str, Any], simulator: Any, sample: simulate.Sample) -> dict[str, Any]:
    """Return the estimators by name; those of clusters without parameters have the clusters of the simulator."""
    clusters = {"embedding": simulator.clusters, "logging_policy": sample.logging}
    of_sample = {name: {name: clusters} for name in OF_CLUSTERS}
    return {name: make_estimator(of_sample.get(str(value), value)) for name, value in values.items()}


def make_cost_model(value: Any, simulator: Any) -> Any:
    if value == CLUSTERS:
        return ClusterModel(simulator.clusters)
    return None if value is None else make_object(value, "cost_model", "fit")


def measure(
    repetition: int,
    policies: Any,
    estimators: Any,
    sizes: Sequence[int],
    simulators: Any = (),
    datasets: Sequence[str] = (),
    logging: Any = (simulate.OWN,),
    cost_model: Any = None,
    resources: Path | None = None,
) -> Iterator[dict[str, object]]:
    """Yield a row per simulator, logging policy, n, policy and estimator."""
    policies = entries(policies)
    worlds = dict(make_worlds(json.dumps(entries(simulators)), json.dumps(policies)))
    for name in datasets:
        dataset = read_dataset(Path(resources or ".", name, "train.npz"))
        worlds[name] = dataset, true_costs(dataset, policies)
    for name, (simulator, truths) in worlds.items():
        regressor = make_cost_model(cost_model, simulator)
        for logger, value in entries(logging).items():
            for n in sizes:
                sample = simulator.draw(n, make_policy(value, simulator), generator(name, repetition, f"{logger} {n}"))
                methods = estimators_of(entries(estimators), simulator, sample)
                needs_model = any(getattr(method, "uses_model", True) for method in methods.values())
                model = cross_fit(sample.log, regressor) if needs_model else None
                for policy, of_policy in policies.items():
                    probabilities = sample.probabilities(make_policy(of_policy, simulator))
                    truth = truths[policy]
                    for estimator, method in methods.items():
                        estimate = off_policy_value(probabilities, sample.log, method, cost_model=model)
                        yield {
                            **dict(zip(KEYS, (name, logger, policy, n, estimator), strict=True)),
                            "repetition": repetition,
                            "error": float(estimate) - truth.value,
                            "covers": float(estimate.low <= truth.value <= estimate.high),
                            "width": estimate.high - estimate.low,
                            "truth": truth.value,
                            "truth_error": truth.standard_error,
                        }


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of each estimator, and that of its intervals."""
    rows = rows.assign(square=rows["error"] ** 2, deviation=rows["error"])
    groups = rows.groupby(KEYS, sort=False)
    rows["deviation"] = (rows["error"] - groups["error"].transform("mean")) ** 2
    groups = rows.groupby(KEYS, sort=False)
    mean, error, n = groups.mean(numeric_only=True), groups.sem(numeric_only=True), groups.size()
    table = pd.DataFrame({"truth": mean["truth"], "truth_error": mean["truth_error"], "logs": n})
    table["bias"], table["bias_error"] = mean["error"], np.hypot(error["error"], mean["truth_error"])
    for name, column in (("variance", "deviation"), ("mse", "square"), ("coverage", "covers"), ("width", "width")):
        table[name], table[f"{name}_error"] = mean[column], error[column]
    table["variance"] *= n / (n - 1)
    table["rmse"] = np.sqrt(table["mse"])
    for column, share in QUANTILES.items():
        table[column] = groups["square"].quantile(share)
    table["rmse_error"] = table["mse_error"] / (2 * table["rmse"])
    return table.join(relative_errors(rows, table["mse"])).reset_index()


def relative_errors(rows: pd.DataFrame, mse: pd.Series) -> pd.DataFrame:
    """Return the rmse of each estimator divided by the least one, with a paired standard error by the delta method."""
    squares = rows.pivot_table(index=[*KEYS[:-1], "repetition"], columns="estimator", values="square", sort=False)
    means = mse.unstack("estimator")
    best = means.idxmin(axis=1)
    results = {}
    for key, of_setting in squares.groupby(KEYS[:-1], sort=False):
        shares = of_setting / of_setting.mean()
        for name, share in shares.items():
            ratio = np.sqrt(means.loc[key, name] / means.loc[key, best[key]])
            results[*key, name] = ratio, ratio / 2 * (share - shares[best[key]]).sem()
    frame = pd.DataFrame.from_dict(results, orient="index", columns=["relative", "relative_error"])
    return frame.set_axis(pd.MultiIndex.from_tuples(frame.index, names=KEYS))


def pooled_coverage(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean coverage of each estimator by number of rows and in all settings, from the largest on."""
    shares = table.pivot_table(index="estimator", columns="n", values="coverage", margins=True, margins_name="all")
    shares = shares.iloc[:-1].sort_values("all", ascending=False)
    rows = [(f"`{name}`", *(number(share, 2) for share in row)) for name, *row in shares.itertuples()]
    return table_of(("estimator", *(f"{n} rows" for n in shares.columns[:-1]), "all"), rows)


def errors_by_simulator(table: pd.DataFrame) -> pd.DataFrame:
    """Return the bias and the rmse of each estimator on each simulator, as they are in the table."""
    simulators = table["simulator"].unique()
    rows = []
    for estimator, of_estimator in table.groupby("estimator", sort=False):
        cells = of_estimator.set_index("simulator").loc[simulators]
        errors = [f"{number(row.rmse)} ± {number(row.rmse_error)}" for row in cells.itertuples()]
        rows.append((f"`{estimator}`", *errors, *(number(value, sign="+") for value in cells["bias"])))
    header = "estimator", *(f"{name}, {measure}" for measure in ("RMSE", "bias") for name in simulators)
    return table_of(header, rows)
