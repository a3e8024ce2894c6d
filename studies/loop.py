"""Log, learn, prove, deploy, log again: how often does this loop end as it should in a simulated shop?

A shop shows one of three banners to each visitor, by a softmax policy whose probabilities it logs. It writes a file of
2000 rows each week. `learn` learns a candidate from the file of week 1. In weeks 2 to 6, `certify --anytime` judges
this candidate on all files since week 2, and the shop stops at the first verdict *better*. Then it deploys the policy:
in the second log of 2000 rows, `decide` draws each banner, with the share of uniform banners that `learn` stored.
`learn` learns again from the second log, whose mapping has the smallest propensity of this policy. There are two
worlds:

no gain   each banner is clicked with probability 0.08
gain      the best banner of the visitor's device is clicked with probability 0.12, the others with 0.06

The table has a row per world: the number of repetitions, the mean of the candidate's true gain in clicks per row, and
the number of repetitions in which

week1          `learn` already said *better*, on the held-out rows of week 1 (the shop still waits for week 2)
usual          the usual certificate, which holds at one look only, was below 0 at one of the five weekly looks
stopped        the shop stopped, by week 6
week2 … week6  the shop stopped after this week's file
then better …  the second round ended in this verdict

Repetition s of each world has seed s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from cells import number, table_of
from scipy.special import softmax
from synthetic import draw_actions, run_command

from drcrm.certificates import policy_certificate
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.diagnostics.comparison.verdict import VERDICTS
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.serving.served_policy import load_policy

WORLDS, WEEKS, ROWS, POPULATION = ("no gain", "gain"), range(2, 7), 2000, 100_000
BANNERS, DEVICES = np.array(["music", "news", "sport"]), np.array(["desktop", "mobile", "tablet"])
NULL, BEST, OTHER = 0.08, 0.12, 0.06  # click rates
MAPPING = {
    "action": "banner",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["spent", "visits"], "categorical": ["device"]},
    "algorithm": "kl_dro_dr",
}


def draw_visitors(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return the contexts of random visitors."""
    spent, visits = rng.exponential(30, rows).round(2), rng.gamma(2, 3, rows).round(2)
    return pd.DataFrame({"spent": spent, "visits": visits, "device": rng.choice(DEVICES, rows)})


def logging_policy(visitors: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of the banners under the logging policy, (n, 3)."""
    scores = np.column_stack([visitors["visits"] / 6 - 1, np.zeros(len(visitors)), visitors["device"] == "mobile"])
    return softmax(scores / 2, axis=1)


def click_rates(world: str, visitors: pd.DataFrame) -> np.ndarray:
    """Return the probability of a click on each banner, (n, 3)."""
    if world == "no gain":
        return np.full((len(visitors), len(BANNERS)), NULL)
    best = np.searchsorted(DEVICES, visitors["device"])
    return np.where(best[:, None] == np.arange(len(BANNERS)), BEST, OTHER)


def draw_log(world: str, rng: np.random.Generator, policy: Path | None = None) -> pd.DataFrame:
    """Return the log of a week, by the logging policy or by the policy in a file."""
    visitors, place = draw_visitors(ROWS, rng), np.arange(ROWS)
    if policy is None:
        probabilities = logging_policy(visitors)
        number = draw_actions(probabilities, rng)
        banner, p = BANNERS[number], probabilities[place, number]
    else:
        banner, p = load_policy(policy).decide(visitors, random_state=rng)
    rate = click_rates(world, visitors)[place, np.searchsorted(BANNERS, banner)]
    return visitors.assign(banner=banner, p=p, click=(rng.random(ROWS) < rate).astype(int))


def true_gain(world: str, stored: StoredPolicy) -> float:
    """Return the policy's mean clicks minus the logging policy's."""
    visitors = draw_visitors(POPULATION, np.random.default_rng(0))
    learned = stored.policy.marginals(stored.encoding.contexts(visitors))
    return float(((learned - logging_policy(visitors)) * click_rates(world, visitors)).sum(axis=1).mean())


def difference_bounds(stored: StoredPolicy, frame: pd.DataFrame) -> tuple[float, float]:
    """Return the bounds of ``certify --anytime`` and ``certify`` on the difference from the logging policy's cost."""
    X, action = stored.encoding.contexts(frame), np.searchsorted(BANNERS, frame["banner"])
    cost = -frame["click"].to_numpy(dtype=float)
    log = BanditLog(X, action, frame["p"].to_numpy(), cost, n_actions=len(BANNERS))
    options: dict[str, Any] = {"baseline": "logging"}
    anytime = policy_certificate(stored.policy, log, "ips", method="anytime", cost_range=(-1.0, 0.0), **options)
    usual = policy_certificate(stored.policy, log, "dr", cost_model=stored.model, **options)
    return anytime.bound, usual.bound


def run(command: str, *arguments: Path | str) -> Mapping[str, Any]:
    """Return the answer of a command."""
    with TemporaryDirectory() as name:
        answer = Path(name) / "answer.json"
        run_command([command, *map(str, arguments), "--json", str(answer)])
        return json.loads(answer.read_text())


def learn(log: Path, policy: Path, **known: float) -> str:
    """Return the verdict of ``learn``; ``known`` are further keys of the mapping."""
    answer = run("learn", log, "--output", policy, "--config", json.dumps(MAPPING | known))
    return answer["verdict"]["verdict"]


def is_shown(policy: Path, weeks: list[Path]) -> bool:
    """Return whether ``certify --anytime`` shows that the policy is better."""
    running = run("certify", policy, *weeks, "--anytime")["running"]
    return running is not None and running["difference_bound"] < 0


def write_log(folder: Path, name: str, frame: pd.DataFrame) -> Path:
    """Return the CSV file of a log."""
    path = folder / f"{name}.csv"
    frame.to_csv(path, index=False)
    return path


def simulate(world: str, seed: int) -> dict[str, object]:
    """Return how the loop ended: the week in which the shop stopped, and the verdict of the second round."""
    rng = np.random.default_rng([WORLDS.index(world), seed])
    with TemporaryDirectory() as name:
        folder = Path(name)
        output, frames, files, usual = folder / "policy.npz", [], [], []
        verdict = learn(write_log(folder, "week1", draw_log(world, rng)), output)
        policy = output if verdict == "better" else folder / "policy.candidate.npz"
        stored = read_policy(policy)
        result = {"week1": verdict == "better", "gain": true_gain(world, stored), "stopped": None, "then": None}
        for week in WEEKS:
            frames.append(draw_log(world, rng))
            files.append(write_log(folder, f"week{week}", frames[-1]))
            anytime, bound = difference_bounds(stored, pd.concat(frames, ignore_index=True))
            usual.append(bound)
            # Without a bound below 0 the command cannot say better, so it need not run.
            if result["stopped"] is None and anytime < 0 and is_shown(policy, files):
                result["stopped"] = week
        if result["stopped"] is not None:
            second = write_log(folder, "second", draw_log(world, rng, policy))
            least = stored.policy.explore / len(BANNERS)
            result["then"] = learn(second, folder / "second.npz", least_propensity=least)
    return result | {"usual": min(usual) < 0}


def count(world: str, results: pd.DataFrame) -> dict[str, object]:
    """Return a row of the table from the results of all repetitions."""
    counts = {
        "gain": round(results["gain"].mean(), 9) + 0.0,
        "week1": results["week1"].sum(),
        "usual": results["usual"].sum(),
    }
    counts["stopped"] = results["stopped"].notna().sum()
    counts |= {f"week{week}": (results["stopped"] == week).sum() for week in WEEKS}
    counts |= {f"then {verdict}": (results["then"] == verdict).sum() for verdict in VERDICTS}
    return {"world": world, "repetitions": len(results), **counts}


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per world."""
    for world in WORLDS:
        yield {"world": world} | simulate(world, repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the counts by world."""
    return pd.DataFrame([count(str(world), part) for world, part in rows.groupby("world", sort=False)])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often each outcome of the loop happened, with a column per world."""
    rows = table.set_index("world")
    verdicts = ["then better", "then not shown", "then worse"]
    lines = {
        "`learn` says *better* after week 1": ["week1"],
        "a usual certificate shows a gain at one or more of the five looks": ["usual"],
        "the shop deploys, by week 6": ["stopped"],
        "… in week 2 · 3 · 4 · 5 · 6": [f"week{week}" for week in WEEKS],
        "`learn` on the second log says *better* · *not shown* · *worse*": verdicts,
        "… or *the log cannot say* · *the log is wrong*": ["then the log cannot say", "then the log is wrong"],
    }
    cells = [[label, *(" · ".join(map(str, row)) for row in rows[names].to_numpy())] for label, names in lines.items()]
    gain = ["mean true gain of the candidate, clicks per row", *map(number, rows["gain"])]
    return table_of((f"of {rows['repetitions'].iloc[0]} repetitions", *rows.index), [gain, *cells])
