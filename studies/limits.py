"""Where algorithms stop being trustworthy.

A finished run, with one thing about the log changed at a time. The logged actions stay as they are; fits are made and
chosen as in `beyond`, along the grids of config.yaml, by clipped SNIPS on the changed held-out part.

    as logged      nothing is changed
    whole vector   the cost is 0/1: whether any label is wrong
    wrong pairs    the cost is the number of wrong labels, plus q/(q − 1) for each pair of neighbouring labels that are
                   both wrong: pairs cost as much as labels where all is wrong
    power          propensities to the power 0.9
    noise ½, 1     propensities times e^{N(0, s)}, s a standard deviation, at most 1; one factor for each distinct row
    no π0          the start tilts an imitation of the log; propensities are known
    imitated p     the propensities are those of that imitation too

Costs are translated to be at most 0, as the pipeline does. Losses of policies are exact: labels are independent under
them. There is a row for each log, seed and algorithm: the loss that the costs are (`own`), what was chosen, what
held-out scores promise of it, and all three losses on the test part, expected and of the most probable actions. The
summary has means ± standard errors, and paired differences to what the log as logged gives by the same loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from finished import Run

from drcrm.core.algorithms import Algorithm
from drcrm.core.cost_model import CostModel
from drcrm.core.design import Design
from drcrm.core.learning import learn
from drcrm.core.log import BanditLog
from drcrm.core.names import SCORES
from drcrm.core.policies import ExponentialPolicy
from drcrm.core.starts import imitation
from drcrm.files import read_npz
from drcrm.pipeline.formats import read_contexts, read_policy
from drcrm.pipeline.steps import generator
from drcrm.report.comparisons import interval
from drcrm.roles import LOGGING, SKYLINE

WITHOUT_MODEL = "kl_dro_snips_logging"  # kl_dro_snips from π0 itself: no cost model has a part in it
FROM_ZERO = "cips", "kl_dro"  # they do not need π0
SELECTION = "clipped_snips"


def hamming(wrong: np.ndarray) -> np.ndarray:
    """The wrong labels, of how likely each is wrong, (n, q)."""
    return wrong.sum(axis=1)


def whole_vector(wrong: np.ndarray) -> np.ndarray:
    return 1 - (1 - wrong).prod(axis=1)


def pairs(wrong: np.ndarray) -> np.ndarray:
    q = wrong.shape[1]
    return wrong.sum(axis=1) + q / (q - 1) * (wrong[:, 1:] * wrong[:, :-1]).sum(axis=1)


LOSSES = {"hamming": hamming, "whole_vector": whole_vector, "pairs": pairs}


@dataclass(frozen=True)
class Log:
    """The training and the held-out part of a log, π0 where it is known, and the loss that its costs are."""

    train: BanditLog
    heldout: BanditLog
    logging_policy: ExponentialPolicy | None
    loss: str = "hamming"


def logs(run: Run, labels: np.ndarray) -> Iterator[tuple[str, Log]]:
    """The log of a run, and what is made of it."""
    arrays = read_npz(run.folder / "log.npz", ["X", "Y", "propensity", "cost", "context", "train", "heldout"])
    parts = arrays.pop("train"), arrays.pop("heldout")
    rng = generator("limits", run.seed, "noise")

    def changed(logging_policy: ExponentialPolicy | None = run.logging, loss: str = "hamming", **changes) -> Log:
        log = BanditLog(**{**arrays, **changes})
        return Log(*map(log.recount, parts), logging_policy, loss)

    def of(loss: str) -> Log:
        wrong = arrays["Y"] != labels[arrays["context"]]
        worst = LOSSES[loss](np.ones((1, wrong.shape[1])))
        return changed(loss=loss, cost=LOSSES[loss](wrong.astype(float)) - worst)

    p = arrays["propensity"]
    yield "as logged", changed()
    yield "whole vector", of("whole_vector")
    yield "wrong pairs", of("pairs")
    yield "power", changed(propensity=p**0.9)
    for name, deviation in {"noise ½": 0.5, "noise 1": 1.0}.items():
        yield name, changed(propensity=np.minimum(p * np.exp(deviation * rng.normal(size=len(p))), 1))
    yield "no π0", changed(None)
    imitated = ExponentialPolicy(imitation(Design(changed().train, trains=True)))
    log_prob = imitated.log_prob(arrays["X"], arrays["Y"], arrays["context"])
    yield "imitated p", changed(imitated, propensity=np.exp(log_prob))


def learned(algorithm: dict, log: Log, cost_model: CostModel) -> tuple[ExponentialPolicy, dict[str, float]]:
    """The policy that the held-out score chooses along an algorithm's grid, and what it has and promises."""
    fits = learn(log.train, Algorithm(**algorithm), log.heldout, log.logging_policy, cost_model).fits
    place = {name: index for index, name in enumerate(SCORES)}
    chosen = int(fits.chosen[place[SELECTION]]) if algorithm.get("grid") else 0
    promised = {name: round(float(fits.scores[chosen, place[name]]), 6) for name in (SELECTION, "snips_bound")}
    about = {"hyperparameter": fits.grid[chosen], "tilt": fits.tilt[0], "penalty": cost_model.penalty_, **promised}
    return ExponentialPolicy(fits.coef[chosen]), about


def losses(policy: ExponentialPolicy, X, labels: np.ndarray) -> dict[str, float]:
    """The mean losses of a policy, expected and of its most probable actions."""
    wrong = np.abs(policy.marginals(X) - labels), (policy.greedy(X) != labels).astype(float)
    return {
        f"{kind}_{name}": round(float(loss(each).mean()), 6)
        for kind, each in zip(("expected", "greedy"), wrong, strict=True)
        for name, loss in LOSSES.items()
    }


def rows(run: Run, algorithms: Mapping) -> Iterator[dict]:
    """What is learned from the logs of a run, a row each; π0 and full supervision stand beside the unchanged log."""
    without = algorithms["kl_dro_snips"]
    algorithms = {**algorithms, WITHOUT_MODEL: {**without, "options": {**without["options"], "start": "logging"}}}
    test = run.X, run.labels
    _, labels = read_contexts(run.resources / "train.npz")
    key = {"dataset": run.dataset, "seed": run.seed}
    for role, policy in {LOGGING: run.logging, SKYLINE: read_policy(run.folder.parent / f"{SKYLINE}.npz")}.items():
        yield {**key, "log": "as logged", "algorithm": role, **losses(policy, *test)}
    for name, log in logs(run, labels):
        cost_model = CostModel().fit_log(log.train)
        for algorithm, described in algorithms.items():
            if name == "no π0" and algorithm in (*FROM_ZERO, WITHOUT_MODEL):
                continue
            policy, about = learned(described, log, cost_model)
            yield {**key, "log": name, "own": log.loss, "algorithm": algorithm, **about, **losses(policy, *test)}


def printed(values: pd.Series) -> str:
    of = interval(values)
    return f"{of.mean:.3f} ± {of.standard_error:.3f}"


def table(found: pd.DataFrame, dataset: str, log: str, kind: str) -> pd.DataFrame:
    """Means by the loss that a log's costs are, and differences to what the unchanged log gives by it."""
    of = found[found["dataset"] == dataset]
    changed, as_logged = of[of["log"] == log], of[of["log"] == "as logged"]
    loss = f"{kind}_{changed['own'].dropna().iloc[0]}"
    values, before = (each.pivot(index="seed", columns="algorithm", values=loss) for each in (changed, as_logged))
    lines = {}
    for algorithm in changed["algorithm"][~changed["algorithm"].isin([LOGGING, SKYLINE])].unique():
        columns = {loss: values[algorithm], "difference": values[algorithm] - before[algorithm]}
        lines[algorithm] = {name: printed(column) for name, column in columns.items()}
    for role in (LOGGING, SKYLINE):
        lines[role] = {loss: printed(before[role])}
    return pd.DataFrame.from_dict(lines, orient="index").fillna("")


def summary(rows: pd.DataFrame) -> str:
    parts = []
    for dataset, log in rows[["dataset", "log"]].drop_duplicates().itertuples(index=False):
        both = [table(rows, dataset, log, kind) for kind in ("expected", "greedy")]
        parts.append(f"{dataset}, {log}\n{pd.concat(both, axis=1).to_string()}")
    return "\n\n".join(parts)
