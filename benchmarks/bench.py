"""Time the numerical core relative to the operations that no implementation can avoid.

Run ``make bench``, or ``make bench MIRROR=PATH_OR_URL`` to include real data. Each line of the output is a ratio of two
times (or sizes) from one run, measured in turns, and the absolute figure; the smallest time of each counts.

The floor of an evaluation is two matrix products, XΘ and XᵀA, one exponential per (context, label) or (context, action
of K), and one per distinct (context, action) of the log, as numpy calls on the same arrays. The lower floor computes
ΘᵀXᵀ and AᵀX, the faster order for BLAS, like the objective.

The script writes results/bench.json: name, data, ratio, absolute figure, unit and target of each line.
"""

from __future__ import annotations

import os

# Set before numpy is imported: one thread, like the pipeline's jobs.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
from scipy import sparse

from drcrm import DoublyRobustDRO
from drcrm.cost_models.base import action_effects
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.upper_bound import FINITE_SAMPLE, upper_bound
from drcrm.files import atomic
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.paper.array_files import read_log, read_policy, write_log
from drcrm.paper.simulation import replay
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import BoltzmannRisk, Chi2Ball, KLBall, MeanRisk, Risk
from drcrm.weights import Clipped, clipping_constant

LOGS = Path("results/bench/runs")
OUTPUT = Path("results/bench.json")
SHAPES = {  # contexts, features, labels, non-zeros of a row
    "shape of TMC2007": (21519, 30438, 22, 100),
    "shape of RCV1-topics": (23149, 47236, 4, 76),
}
CHOICES = {"letter": (15_000, 17, 26), "satimage": (3326, 37, 6)}  # contexts, features, actions
LISTED = 100_000, 20, 10  # lists, actions per list, features
COST_MODEL = {"scene": 640, "yeast": 400, "tmc2007_500": 520}  # a third of the time of direct solvers
FROM_LOG = 760  # likewise
CONTEXT_EFFECTS = 1 / 3
SAFE = 1.7  # the mean over splits is 1.5; one split is timed


class Report:
    """The lines measured so far; each is printed when it is added."""

    def __init__(self):
        self.lines = []
        print(f"{'':46} {'data':24} {'ratio':>8}  {'target':>8}  absolute")

    def add(self, name: str, data: str, ratio: float, absolute: float, unit: str, limit: float | None = None):
        """Add a ratio whose target is at most ``limit``."""
        target = f"≤{limit}" if limit else ""
        self.lines.append(
            {"name": name, "data": data, "ratio": ratio, "absolute": absolute, "unit": unit, "to_reach": target}
        )
        print(f"{name:46} {data:24} {ratio:8.2f}  {target:>8}  {absolute:.3g} {unit}", flush=True)


def in_turns(*calls: Callable[[], object], seconds: float = 2.0) -> list[float]:
    """Return the smallest time of each function in seconds; three calls of each take turns, so that caches are warm."""
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
    """Return a function with the operations that an evaluation cannot avoid."""
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
    """Return a function that evaluates the objective at the next of three points, as a fit never returns to one."""
    objective = Objective(PreparedLog(log), MeanRisk(), Clipped(clipping_constant(log)))
    points = cycle([scale * coefficients(log) for scale in (1, 1.001, 1.002)])
    return lambda: objective(next(points))


def fit(log: BanditLog, risk: Risk, max_iter: int) -> Fit:
    """Fit ips from Θ = 0."""
    objective = Objective(PreparedLog(log), risk, Clipped(clipping_constant(log)))
    [result] = minimize_objectives([objective], np.zeros(objective.prepared.shape), LbfgsSettings(max_iter=max_iter))
    return result


def over_floor(report: Report, data: str, log: BanditLog, limit: float) -> None:
    """Report the time of an evaluation relative to both floors."""
    ours, least, lower = in_turns(evaluation(log), floor(log), floor(log, lower=True))
    report.add("evaluation ÷ floor, Δ = 4", data, ours / least, 1e3 * ours, "ms", limit)
    report.add("evaluation ÷ lower floor, Δ = 4", data, ours / lower, 1e3 * ours, "ms")


class Recorded(Risk):
    """A risk that records the arguments of its evaluations."""

    def __init__(self, risk: Risk):
        self.risk, self.calls = risk, []

    def evaluate(self, z, share, n, guess=None):
        self.calls.append((z.copy(), share, n, guess))
        return self.risk.evaluate(z, share, n, guess)


def over_evaluations(report: Report, data: str, log: BanditLog) -> None:
    """Report the time of a fit relative to its evaluations."""
    recorded, evaluate = Recorded(MeanRisk()), evaluation(log)
    fit(log, recorded, 200)
    whole, evaluations = in_turns(lambda: fit(log, MeanRisk(), 200), lambda: [evaluate() for _ in recorded.calls])
    report.add("fit ÷ its evaluations, Δ = 4", data, whole / evaluations, whole, "s, 200 iterations", 1.6)


def estimates(report: Report, data: str, log: BanditLog) -> None:
    """Report the time of snips and dr relative to ips, for a KL ball along the first 30 iterations of a fit."""
    effects = action_effects(CostModel().fit(log), log.X, log.actions)
    weight = Clipped(clipping_constant(log))
    ips = Objective(PreparedLog(log), KLBall(0.01), weight)
    path = [fit(log, KLBall(0.01), iterations).coef for iterations in range(1, 31)]

    def follow(objective: Objective) -> None:
        guess = None
        for coef in path:
            *_, guess = objective.evaluate(coef, guess)

    prepared = PreparedLog(log, effects)
    objectives = {name: Objective(prepared, KLBall(0.01), weight, name) for name in ("snips", "dr")}
    least, *times = in_turns(*(partial(follow, objective) for objective in (ips, *objectives.values())), seconds=6)
    for name, ours in zip(objectives, times, strict=True):
        ours, ratio = ours / len(path), ours / least
        report.add(f"evaluation of {name} ÷ of ips, Δ = 4", data, ratio, 1e3 * ours, "ms", 1.3)


def cost_models(report: Report, data: str, log: BanditLog) -> None:
    """Report the time of the cost model relative to an evaluation, and of context effects relative to the model."""
    effects = CostModel().fit(log).effects(log.X, log.actions)
    ours, one, with_contexts = in_turns(
        lambda: CostModel().fit(log), evaluation(log), lambda: context_effects(log, effects), seconds=6
    )
    report.add("cost model ÷ evaluation, Δ = 4", data, ours / one, ours, "s", COST_MODEL.get(data))
    report.add("context effects ÷ cost model, Δ = 4", data, with_contexts / ours, with_contexts, "s", CONTEXT_EFFECTS)


def from_log(report: Report, data: str, log: BanditLog) -> None:
    """Report the time from a log and its logging policy to the recommended policy."""
    logging_policy = read_policy(LOGS / data / "seed0" / "logging.npz")
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": log.count}

    def fit(safe: bool = False) -> object:
        return DoublyRobustDRO(safe=safe).fit(log.X, log.Y, **rows, logging_policy=logging_policy)

    ours, safe, one = in_turns(fit, lambda: fit(safe=True), evaluation(log), seconds=9)
    report.add("log to DoublyRobustDRO ÷ evaluation, Δ = 4", data, ours / one, ours, "s", FROM_LOG)
    report.add("safe DoublyRobustDRO ÷ not safe, Δ = 4", data, safe / ours, safe, "s", SAFE)


def search(report: Report, data: str, replays: int, log: BanditLog) -> None:
    """Report the time of the inner minimisation of the balls, beyond that of a known temperature, along a fit."""
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
            report.add(name, data, ours / one, 1e3 * ours, "ms", 0.2)


def certificates(report: Report) -> None:
    """Report the time of bounds on the mean of a million costs, relative to sorting them."""
    z = -3 * np.random.default_rng(0).beta(1, 2, 10**6)
    methods = ("kl", "chi2", "squared_hellinger", "reverse_kl", "student", *FINITE_SAMPLE)

    def bound(method: str) -> None:
        limits = {"low": -3, "high": 0} if method in ("empirical_bernstein", "betting") else {}
        limits |= {"high": 0} if method == "anytime" else {}
        upper_bound(z, method=method, **limits)

    least, *times = in_turns(lambda: np.sort(z), *(partial(bound, method) for method in methods), seconds=10)
    for method, ours in zip(methods, times, strict=True):
        limit = 200 if method == "betting" else 20
        report.add(f"certificate by {method} ÷ a sort", "10⁶ costs", ours / least, 1e3 * ours, "ms", limit)


def sparse_log(contexts: int, features: int, labels: int, row: int) -> BanditLog:
    """Return a replayed log of sparse contexts whose features have the frequencies of words."""
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


def single_choice_log(contexts: int, features: int, actions: int) -> BanditLog:
    """Return a log of four passes of a softmax policy over dense contexts."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(contexts, features - 1)), np.ones(contexts)])
    policy, right = SoftmaxPolicy(rng.normal(scale=0.5, size=(features, actions))), rng.integers(0, actions, contexts)
    A, context = np.concatenate([policy.sample(X, rng) for _ in range(4)]), np.tile(np.arange(contexts), 4)
    propensity = np.exp(policy.log_prob(X, A, context))
    log = BanditLog(X, A, propensity, -1.0 * (right[context] == A), context, n_actions=actions)
    return log.merge_duplicates()[0]


def memory(report: Report, data: str, path: str | Path, limit: float) -> None:
    """Report the peak memory of a fit of ips; L-BFGS has reached it after 40 iterations."""
    code = """
import numpy as np
from drcrm.weights import clipping_constant
from drcrm.policies.prepared_log import PreparedLog
from drcrm.optimization.objective import Objective
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.risks import KLBall
from drcrm.weights import Clipped
from drcrm.paper.array_files import read_log
log, _ = read_log(sys.argv[1])
objective = Objective(PreparedLog(log), KLBall(0.01), Clipped(clipping_constant(log)))
list(minimize_objectives([objective], np.zeros(objective.prepared.shape), LbfgsSettings(max_iter=40)))
"""
    peak(report, data, code, path, limit=limit)


def memory_of_lists(report: Report, form: str) -> None:
    """Report the peak memory of drawing a log of lists and a doubly robust fit to it."""
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
    peak(report, f"{lists} lists of {actions} × {features}, {form}", code, form, *LISTED, limit=2000)


def peak(report: Report, data: str, code: str, *arguments: object, limit: float) -> None:
    """Report the peak resident memory of a process that runs some code."""
    status = 'next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]'
    command = [sys.executable, "-c", f"import sys\n{code}\nprint({status})", *map(str, arguments)]
    job = subprocess.run(command, check=True, capture_output=True, text=True)
    megabytes = int(job.stdout) / 1024
    report.add("peak memory of a fit ÷ its limit", data, megabytes / limit, megabytes, "MB", 1)


def start(report: Report) -> None:
    """Report the time of a fit to 20 rows relative to the imports that it needs."""
    rng = np.random.default_rng(0)
    policy = ExponentialPolicy(rng.normal(size=(4, 3)))
    log = replay(policy, rng.normal(size=(20, 4)), rng.integers(0, 2, (20, 3)), 1, rng)
    with tempfile.TemporaryDirectory() as folder:
        held = np.arange(20) % 4 == 0
        write_log(f"{folder}/log.npz", log, ~held, held)

        def run(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], check=True)

        files = f"--log={folder}/log.npz", f"--fits={folder}/fit.npz"
        cips = {"estimator": "CIPS", "parameter": None, "grid": [], "options": {}}
        cips |= {"stopping": "scaled", "calibrated": False}
        fit = "-m", "drcrm.paper.steps", "learn.fit", *files, f"--settings={json.dumps(cips)}"
        imports = "-c", "import numpy, scipy.optimize, scipy.sparse"
        ours, least = in_turns(lambda: run(*fit), lambda: run(*imports), seconds=10)
    report.add("step fit ÷ imports of numpy, scipy", "20 rows", ours / least, ours, "s", 1.5)


def main() -> None:
    report = Report()
    start(report)
    certificates(report)

    def path(data: str, replays: int) -> Path:
        return LOGS / data / "seed0" / f"replay{replays}" / "log.npz"

    limits = {"scene": 1.3, "yeast": 2.0, "rcv1_subset": 1.3, "tmc2007_500": 1.6, **dict.fromkeys(CHOICES, 1.4)}
    available = [data for data in limits if path(data, 4).exists()]
    for data in sorted(limits.keys() - available):
        print(f"{data}: no log; `make bench MIRROR=…` writes it")
    for data in available:
        log = read_log(path(data, 4))[0]
        over_floor(report, data, log, limits[data])
        estimates(report, data, log)
        cost_models(report, data, log)
        if data == "scene":
            from_log(report, data, log)
    for data, shape in CHOICES.items():
        over_floor(report, f"shape of {data}", single_choice_log(*shape), 1.4)
    for form in ("dense", "csr"):
        memory_of_lists(report, form)
    for data, shape in SHAPES.items():
        log = sparse_log(*shape)
        over_floor(report, data, log, 1.3)
        if data.endswith("TMC2007"):
            with tempfile.TemporaryDirectory() as folder:
                write_log(f"{folder}/log.npz", log, log.count, log.count)
                memory(report, data, f"{folder}/log.npz", 3000)
    for data, limit in {"scene": 3.0, "yeast": 20.0}.items():
        if data not in available:
            continue
        logs = {replays: read_log(path(data, replays))[0] for replays in (1, 4, 256)}
        ours, least, lower = in_turns(evaluation(logs[256]), floor(logs[1]), floor(logs[1], lower=True))
        report.add("evaluation at Δ = 256 ÷ floor at Δ = 1", data, ours / least, 1e3 * ours, "ms", limit)
        report.add("evaluation at Δ = 256 ÷ lower floor at Δ = 1", data, ours / lower, 1e3 * ours, "ms")
        over_evaluations(report, data, logs[4])
        for replays in (4, 256):
            search(report, data, replays, logs[replays])
        memory(report, f"{data}, Δ = 256", path(data, 256), 600)
    with atomic(OUTPUT) as part:
        part.write_text(json.dumps(report.lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
