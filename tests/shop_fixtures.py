"""A shop's log as files, and the policy that was learned from it."""

from __future__ import annotations

import json

import pytest
from shop import MAPPING, decisions

from drcrm.__main__ import main


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
