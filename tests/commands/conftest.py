"""Logs as users have them: files of decisions, made by a policy that is known."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from drcrm.__main__ import main

NAMES = np.array(["news", "sport", "art & <b>music</b>"])
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age", "price"], "categorical": ["city"]},
    "slice": "position",
    "algorithm": "kl_dro_dr",
}
CITIES = np.array(["Bern", "Zürich", "Genf"])


def decisions(n: int, seed: int = 0) -> pd.DataFrame:
    """What a soft policy logged; the right action is that of the city, and of the price."""
    rng = np.random.default_rng(seed)
    age, price, city = rng.normal(40, 9, n), rng.exponential(30, n), rng.integers(0, 3, n)
    scores = np.column_stack([age / 20, price / 40, rng.normal(size=n) * 0 + 1.5])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    item = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    click = rng.random(n) < np.where(item == (city + (price > 30)) % 3, 0.6, 0.15)
    frame = pd.DataFrame({"age": age, "price": price, "city": CITIES[city], "item": NAMES[item]})
    return frame.assign(p=p[np.arange(n), item], click=click.astype(int), position=rng.integers(1, 3, n))


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A folder with a log, another one, their mapping, and the policy that was learned, with its answer and page."""
    folder = tmp_path_factory.mktemp("shop")
    decisions(3000).to_csv(folder / "log.csv", index=False)
    decisions(2000, seed=1).to_parquet(folder / "later.parquet", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING), encoding="utf-8")
    given = f"{folder}/log.csv --config {folder}/map.json --output {folder}/policy.npz"
    assert main(f"learn {given} --json {folder}/answer.json --report {folder}/report.html".split()) == 0
    return folder


@pytest.fixture
def run(capsys):
    """Run a command; its exit status, and what it said on stdout and stderr."""

    def run(*arguments) -> tuple[int, str, str]:
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


def answer_of(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
