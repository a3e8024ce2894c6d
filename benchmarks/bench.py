"""Time the core against what no formula can avoid; `make bench` runs it, `make bench MIRROR=…` on real data too.

Each line is a ratio of two times (or sizes) of one run, measured in turns, the smallest of each taken; beside it the
absolute figure. The floor of an evaluation is two matrix products, XΘ and XᵀA, one exponential per (context, label) and
one per distinct (context, action), as bare numpy calls on the same arrays; the lower floor takes the products in the
order that BLAS is faster in, ΘᵀXᵀ and AᵀX, as the objective does. A label is an action where one of K is chosen.

Writes results/bench.json: for each line name, data, ratio, absolute, unit, and what to reach.
"""

from __future__ import annotations

import os

# Before numpy is imported: one thread, as the pipeline's jobs have.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from naive import NaiveObjective
from scipy import sparse

from drcrm import DoublyRobustDRO
from drcrm.certificates.bounds import FINITE_SAMPLE, upper_bound
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel, action_effects
from drcrm.data.bandit_log import BanditLog, clipping_constant
from drcrm.experiments.datasets.array_files import read_log, read_policy, write_log
from drcrm.experiments.simulation.replay import replay
from drcrm.files import atomic
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import BoltzmannRisk, Chi2Ball, KLBall, MeanRisk, Risk
from drcrm.weights import Clipped

LOGS = Path("results/bench/runs")
OUTPUT = Path("results/bench.json")
SHAPES = {  # contexts, features, labels, non-zeros of a row
    "TMC2007, its shape": (21519, 30438, 22, 100),
    "RCV1-topics, its shape": (23149, 47236, 4, 76),
}
CHOICES = {"letter": (15_000, 17, 26), "satimage": (3326, 37, 6)}  # contexts, features, actions to choose one of
LISTED = 100_000, 20, 10  # lists, actions of each, their features
COST_MODEL = {"scene": 640, "yeast": 400, "tmc2007_500": 520}  # a third of what direct solutions and plain steps took
FROM_LOG = 760  # the same
CONTEXT_EFFECTS = 1 / 3
SAFE = 1.7  # 1.5 by mean over splits; one of them is timed
AT_MOST, AT_LEAST = "≤", "≥"


class Report:
    """The lines measured so far, printed as they come."""

    def __init__(self):
        self.lines = []
        print(f"{'':46} {'data':24} {'ratio':>8}  {'to reach':>8}  absolute")

    def add(
        self, name: str, data: str, ratio: float, absolute: float, unit: str, reach: tuple[str, float] | None = None
    ):
        target = "".join(map(str, reach)) if reach else ""
        self.lines.append(
            {"name": name, "data": data, "ratio": ratio, "absolute": absolute, "unit": unit, "to_reach": target}
        )
        print(f"{name:46} {data:24} {ratio:8.2f}  {target:>8}  {absolute:.3g} {unit}", flush=True)


def in_turns(*calls: Callable[[], object], seconds: float = 2.0) -> list[float]:
    """Return the smallest time of each call, in seconds; in turns of three calls, each with its own caches."""
    best = [np.inf] * len(calls)
    for call in calls:
        call()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for i, call in enumerate(calls):
            for _ in range(3):
                start = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def coefficients(log: BanditLog) -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.05, size=log.X.shape[1] * log.actions.shape[0])


def floor(log: BanditLog, lower: bool = False) -> Callable[[], None]:
    """The calls that an evaluation cannot avoid."""
    X, coef = log.X, coefficients(log).reshape(log.X.shape[1], -1)
    scores, per_row = X @ coef, -np.random.default_rng(1).random(len(log.Y))
    slopes, out, row_out = scores.copy(), np.empty_like(scores), np.empty_like(per_row)

    def call() -> None:
        if lower:
            coef.T @ X.T
            slopes.T @ X
        else:
            X @ coef
            X.T @ slopes
        np.exp(scores, out=out)
        np.exp(per_row, out=row_out)

    return call


def evaluation(log: BanditLog) -> Callable[[], object]:
    objective = Objective(LinearPredictor(log, trains=True), MeanRisk(), Clipped(clipping_constant(log)))
    coef = coefficients(log)
    return lambda: objective(coef)


def fit(log: BanditLog, risk: Risk, max_iter: int) -> Fit:
    """A fit of ips from Θ = 0."""
    objective = Objective(LinearPredictor(log, trains=True), risk, Clipped(clipping_constant(log)))
    [found] = minimize_objectives([objective], np.zeros(objective.design.shape), LbfgsSettings(max_iter=max_iter))
    return found


def over_floor(report: Report, data: str, log: BanditLog, reach: float) -> None:
    ours, least, lower = in_turns(evaluation(log), floor(log), floor(log, lower=True))
    report.add("evaluation ÷ floor, Δ = 4", data, ours / least, 1e3 * ours, "ms", (AT_MOST, reach))
    report.add("evaluation ÷ lower floor, Δ = 4", data, ours / lower, 1e3 * ours, "ms")


def over_naive(report: Report, data: str, replays: int, log: BanditLog, reach: float | None) -> None:
    naive, coef = NaiveObjective(log, clipping_constant(log)), coefficients(log)
    values = [np.append(gradient, value) for value, gradient in (naive(coef), evaluation(log)())]
    np.testing.assert_allclose(*values, rtol=1e-10, atol=1e-10)
    theirs, ours = in_turns(lambda: naive(coef), evaluation(log), seconds=5)
    target = (AT_LEAST, reach) if reach else None
    report.add(f"naive ÷ ours per evaluation, Δ = {replays}", data, theirs / ours, 1e3 * theirs, "ms", target)


class Recorded(Risk):
    """A risk that keeps what it was called with."""

    def __init__(self, risk: Risk):
        self.risk, self.calls = risk, []

    def evaluate(self, z, share, n, guess=None):
        self.calls.append((z.copy(), share, n, guess))
        return self.risk.evaluate(z, share, n, guess)


def over_evaluations(report: Report, data: str, log: BanditLog) -> None:
    """What a fit takes beside its evaluations."""
    counted, one = Recorded(MeanRisk()), evaluation(log)
    fit(log, counted, 200)
    whole, evaluations = in_turns(lambda: fit(log, MeanRisk(), 200), lambda: [one() for _ in counted.calls])
    report.add("fit ÷ its evaluations, Δ = 4", data, whole / evaluations, whole, "s, 200 iterations", (AT_MOST, 1.6))


def estimates(report: Report, data: str, log: BanditLog) -> None:
    """What the other estimates cost beside ips: KL ball, along the same Θs, those of a fit's first 30 iterations."""
    effects = action_effects(CostModel().fit_log(log), log.X, log.actions)
    weight = Clipped(clipping_constant(log))
    ips = Objective(LinearPredictor(log, trains=True), KLBall(0.01), weight)
    path = [fit(log, KLBall(0.01), iterations).coef for iterations in range(1, 31)]

    def follow(objective: Objective) -> None:
        guess = None
        for coef in path:
            *_, guess = objective.evaluate(coef, guess)

    design = LinearPredictor(log, effects, trains=True)
    others = {name: Objective(design, KLBall(0.01), weight, name) for name in ("snips", "dr")}
    least, *times = in_turns(*(lambda each=each: follow(each) for each in (ips, *others.values())), seconds=6)
    for name, ours in zip(others, times, strict=True):
        ours, ratio = ours / len(path), ours / least
        report.add(f"evaluation of {name} ÷ of ips, Δ = 4", data, ratio, 1e3 * ours, "ms", (AT_MOST, 1.3))


def cost_models(report: Report, data: str, log: BanditLog) -> None:
    """The cost model, its penalty chosen on folds, beside an evaluation of ips; and beside it its context effects."""
    effects = CostModel().fit_log(log).action_effects(log.X, log.actions)
    ours, one, of_contexts = in_turns(
        lambda: CostModel().fit_log(log), evaluation(log), lambda: context_effects(log, effects), seconds=6
    )
    reach = (AT_MOST, COST_MODEL[data]) if data in COST_MODEL else None
    report.add("cost model ÷ evaluation, Δ = 4", data, ours / one, ours, "s", reach)
    report.add(
        "context effects ÷ cost model, Δ = 4", data, of_contexts / ours, of_contexts, "s", (AT_MOST, CONTEXT_EFFECTS)
    )


def from_log(report: Report, data: str, log: BanditLog) -> None:
    """From a log, and π0, to the recommended policy."""
    logging_policy = read_policy(LOGS / data / "seed0" / "logging.npz")
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": log.count}

    def fit(safe: bool = False) -> object:
        return DoublyRobustDRO(safe=safe).fit(log.X, log.Y, **rows, logging_policy=logging_policy)

    ours, safe, one = in_turns(fit, lambda: fit(safe=True), evaluation(log), seconds=9)
    report.add("log to DoublyRobustDRO ÷ evaluation, Δ = 4", data, ours / one, ours, "s", (AT_MOST, FROM_LOG))
    report.add("safe DoublyRobustDRO ÷ not safe, Δ = 4", data, safe / ours, safe, "s", (AT_MOST, SAFE))


def search(report: Report, data: str, replays: int, log: BanditLog) -> None:
    """What the balls' inner minimisation adds to the tilt of a known temperature, along the path of a fit."""
    for kind in (KLBall, Chi2Ball):
        for radius in (1e-3, 1e-1):
            path = Recorded(kind(radius))
            fit(log, path, 20)

            def follow(risk: Risk, calls=path.calls) -> None:
                for call in calls:
                    risk.evaluate(*call)

            ball, tilt, one = in_turns(
                lambda kind=kind, radius=radius: follow(kind(radius)),
                lambda: follow(BoltzmannRisk(1.0)),
                evaluation(log),
            )
            ours = (ball - tilt) / len(path.calls)
            name = f"search of {kind.__name__}({radius:g}) ÷ evaluation, Δ = {replays}"
            report.add(name, data, ours / one, 1e3 * ours, "ms", (AT_MOST, 0.2))


def certificates(report: Report) -> None:
    """A bound of the mean of a million costs beside a sort of them."""
    z = -3 * np.random.default_rng(0).beta(1, 2, 10**6)
    methods = ("kl", "chi2", "squared_hellinger", "reverse_kl", "student", *FINITE_SAMPLE)

    def bound(method: str) -> None:
        upper_bound(
            z, method=method, **({"low": -3, "high": 0} if method in ("empirical_bernstein", "betting") else {})
        )

    least, *times = in_turns(lambda: np.sort(z), *(lambda each=each: bound(each) for each in methods), seconds=10)
    for method, ours in zip(methods, times, strict=True):
        reach = 200 if method == "betting" else 20
        report.add(f"certificate by {method} ÷ a sort", "10⁶ costs", ours / least, 1e3 * ours, "ms", (AT_MOST, reach))


def synthetic(contexts: int, features: int, labels: int, row: int) -> BanditLog:
    """A replayed log over sparse contexts whose features are as unevenly common as words are."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(5, features + 4)
    words = rng.choice(features - 1, (contexts, row), p=frequency / frequency.sum())
    indptr = np.arange(0, contexts * row + 1, row)
    X = sparse.csr_array((rng.random(contexts * row), words.ravel(), indptr), shape=(contexts, features - 1))
    X.sum_duplicates()
    X = sparse.csr_array(sparse.hstack([X, np.ones((contexts, 1))], format="csr"))
    policy = ExponentialPolicy(rng.normal(scale=0.3, size=(features, labels)) - 0.1)
    truth = (rng.random((contexts, labels)) < 0.2).astype(np.uint8)
    return replay(policy, X, truth, 4, rng).merge_duplicates()[0]


def made_choices(contexts: int, features: int, actions: int) -> BanditLog:
    """Four passes of a softmax policy over dense contexts."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(contexts, features - 1)), np.ones(contexts)])
    policy, right = SoftmaxPolicy(rng.normal(scale=0.5, size=(features, actions))), rng.integers(0, actions, contexts)
    A, context = np.concatenate([policy.sample(X, rng) for _ in range(4)]), np.tile(np.arange(contexts), 4)
    propensity = np.exp(policy.log_prob(X, A, context))
    log = BanditLog(X, A, propensity, -1.0 * (right[context] == A), context, n_actions=actions)
    return log.merge_duplicates()[0]


def memory(report: Report, data: str, path: str | Path, reach: float) -> None:
    """The largest resident memory of a fit of ips; it is reached once L-BFGS's memory is full."""
    code = """
import numpy as np
from drcrm.data.bandit_log import clipping_constant
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.optimization.objective import Objective
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.risks import KLBall
from drcrm.weights import Clipped
from drcrm.experiments.datasets.array_files import read_log
log, _ = read_log(sys.argv[1])
objective = Objective(LinearPredictor(log, trains=True), KLBall(0.01), Clipped(clipping_constant(log)))
list(minimize_objectives([objective], np.zeros(objective.design.shape), LbfgsSettings(max_iter=40)))
"""
    peak(report, data, code, path, reach=reach)


def memory_of_lists(report: Report, form: str) -> None:
    """The same of a doubly robust fit of lists, with the making of their log."""
    code = """
import numpy as np
from scipy import sparse
from drcrm import ActionLists, DoublyRobustDRO
lists, actions, features = map(int, sys.argv[2:])
rng = np.random.default_rng(0)
psi = rng.normal(size=(lists * actions, features))
X = ActionLists(sparse.csr_array(psi) if sys.argv[1] == "csr" else psi, np.arange(0, lists * actions + 1, actions))
del psi
A, cost = rng.integers(0, actions, lists), -rng.random(lists)
DoublyRobustDRO().fit(X, A, propensity=np.full(lists, 1 / actions), cost=cost)
"""
    lists, actions, features = LISTED
    peak(report, f"{lists} lists of {actions} × {features}, {form}", code, form, *LISTED, reach=2000)


def peak(report: Report, data: str, code: str, *arguments: object, reach: float) -> None:
    """The largest resident memory of a process that runs some code."""
    status = 'next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]'
    command = [sys.executable, "-c", f"import sys\n{code}\nprint({status})", *map(str, arguments)]
    job = subprocess.run(command, check=True, capture_output=True, text=True)
    megabytes = int(job.stdout) / 1024
    report.add("peak memory of a fit ÷ what it may take", data, megabytes / reach, megabytes, "MB", (AT_MOST, 1))


def start(report: Report) -> None:
    """A fit on a log of 20 rows beside the imports that it cannot avoid."""
    rng = np.random.default_rng(0)
    policy = ExponentialPolicy(rng.normal(size=(4, 3)))
    log = replay(policy, rng.normal(size=(20, 4)), rng.integers(0, 2, (20, 3)), 1, rng)
    with tempfile.TemporaryDirectory() as folder:
        held = np.arange(20) % 4 == 0
        write_log(f"{folder}/log.npz", log, ~held, held)

        def run(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], check=True)

        fit = [
            "-m",
            "drcrm",
            "fit",
            "--log",
            f"{folder}/log.npz",
            "--estimator",
            "CIPS",
            "--output",
            f"{folder}/fit.npz",
        ]
        ours, least = in_turns(
            lambda: run(*fit), lambda: run("-c", "import numpy, scipy.optimize, scipy.sparse"), seconds=10
        )
    report.add("drcrm fit ÷ imports of numpy, scipy", "20 rows", ours / least, ours, "s", (AT_MOST, 1.5))


def main() -> None:
    report = Report()
    start(report)
    certificates(report)

    def path(data: str, replays: int) -> Path:
        return LOGS / data / "seed0" / f"replay{replays}" / "log.npz"

    reach = {"scene": 1.3, "yeast": 2.0, "rcv1_subset": 1.3, "tmc2007_500": 1.6, **dict.fromkeys(CHOICES, 1.4)}
    found = [data for data in reach if path(data, 4).exists()]
    for data in sorted(reach.keys() - found):
        print(f"{data}: no log; `make bench MIRROR=…` makes it")
    for data in found:
        log = read_log(path(data, 4))[0]
        over_floor(report, data, log, reach[data])
        estimates(report, data, log)
        cost_models(report, data, log)
        if data == "scene":
            from_log(report, data, log)
    for data, shape in CHOICES.items():
        over_floor(report, f"{data}, its shape", made_choices(*shape), 1.4)
    for form in ("dense", "csr"):
        memory_of_lists(report, form)
    for data, shape in SHAPES.items():
        log = synthetic(*shape)
        over_floor(report, data, log, 1.3)
        if data.startswith("TMC2007"):
            with tempfile.TemporaryDirectory() as folder:
                write_log(f"{folder}/log.npz", log, log.count, log.count)
                memory(report, data, f"{folder}/log.npz", 3000)
    for data, most, faster in (("scene", 3.0, {4: 10, 256: 300}), ("yeast", 20.0, {4: None, 256: None})):
        if data not in found:
            continue
        logs = {replays: read_log(path(data, replays))[0] for replays in (1, 4, 256)}
        ours, least, lower = in_turns(evaluation(logs[256]), floor(logs[1]), floor(logs[1], lower=True))
        report.add("evaluation at Δ = 256 ÷ floor at Δ = 1", data, ours / least, 1e3 * ours, "ms", (AT_MOST, most))
        report.add("evaluation at Δ = 256 ÷ lower floor at Δ = 1", data, ours / lower, 1e3 * ours, "ms")
        over_evaluations(report, data, logs[4])
        for replays, factor in faster.items():
            search(report, data, replays, logs[replays])
            over_naive(report, data, replays, logs[replays], factor)
        memory(report, f"{data}, Δ = 256", path(data, 256), 600)
    with atomic(OUTPUT) as part:
        part.write_text(json.dumps(report.lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
