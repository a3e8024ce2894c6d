"""Learn from the log of an earlier policy and that of the deployed one together: which policy is called better?

The shop of the study ``loop``, in its world with a gain, learns from 2000 rows of week 1 and deploys the candidate. The
deployed policy logs 2000 more rows. `learn` then learns from both files, in two ways: as they are, and with the file of
the deployed policy as `--baseline`. The table has a row per way: the number of repetitions, and of those in which

recognised    the answer names several logging policies
then …        `learn` ended in this verdict
false better  the verdict was *better*, but the new policy has fewer clicks than the deployed one, by more than two
              standard errors of the difference on 100 000 visitors

and the mean true gain of the best candidate over the deployed policy, in clicks per row: of the candidates that were
called better, and of all.

Repetition s has seed s.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import loop
import numpy as np
import pandas as pd

from drcrm.logs.diagnostics.comparison.verdict import VERDICTS
from drcrm.logs.diagnostics.propensity_trees import POLICY_CHANGE
from drcrm.logs.policy_file import StoredPolicy, read_policy

WAYS = "pooled", "baseline"


def compare_clicks(first: StoredPolicy, second: StoredPolicy) -> tuple[float, float]:
    """Return the difference of two policies' mean clicks, and its standard error."""
    visitors = loop.draw_visitors(loop.POPULATION, np.random.default_rng(0))
    means = (stored.policy.marginals(stored.encoding.contexts(visitors)) for stored in (first, second))
    difference = ((next(means) - next(means)) * loop.click_rates("gain", visitors)).sum(axis=1)
    return float(difference.mean()), float(difference.std() / np.sqrt(len(difference)))


def candidate_of(output: Path) -> Path:
    """Return the file with the candidate that ``learn`` wrote."""
    best = output.with_suffix(f".candidate{output.suffix}")
    return best if best.exists() else output


def measure(seed: int) -> list[dict[str, object]]:
    """Return the verdict of each way, and the gain of its policy over the deployed one."""
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        first = loop.write_log(folder, "first", loop.draw_log("gain", rng))
        loop.learn(first, folder / "first.npz")
        deployed = candidate_of(folder / "first.npz")
        second = loop.write_log(folder, "second", loop.draw_log("gain", rng, deployed))
        results: list[dict[str, object]] = []
        for way in WAYS:
            output = folder / f"{way}.npz"
            options = ["--baseline", deployed] if way == "baseline" else []
            config = loop.json.dumps(loop.MAPPING)
            answer = loop.run("learn", first, second, "--output", output, "--config", config, *options)
            learned, own = read_policy(candidate_of(output)), read_policy(deployed)
            gain, error = compare_clicks(learned, own)
            verdict = answer["verdict"]["verdict"]
            is_recognised = any(check["name"] == POLICY_CHANGE for check in answer["diagnostics"])
            result = {"way": way, "recognised": is_recognised, "verdict": verdict, "gain": gain}
            results.append(result | {"false better": verdict == "better" and gain < -2 * error})
    return results


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the counts by way."""
    table = []
    for way, part in rows.groupby("way", sort=False):
        verdicts, is_better = part["verdict"], part["verdict"] == "better"
        counts = {f"then {verdict}": int((verdicts == verdict).sum()) for verdict in VERDICTS}
        row = {"way": way, "repetitions": len(part), "recognised": int(part["recognised"].sum()), **counts}
        row |= {"false better": int(part["false better"].sum())}
        table.append(row | {"gain if better": part["gain"][is_better].mean(), "gain": part["gain"].mean()})
    return pd.DataFrame(table)
