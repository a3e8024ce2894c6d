"""Files of the shop's log, a policy learned from it, and a function that runs commands."""

import json

import pytest
from shop import MAPPING, decisions

from drcrm.__main__ import main


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """Return a folder with a training log, a later log, their mapping, and the learned policy, answer and report."""
    folder = tmp_path_factory.mktemp("shop")
    decisions(3000).to_csv(folder / "log.csv", index=False)
    decisions(2000, seed=1).to_parquet(folder / "later.parquet", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING), encoding="utf-8")
    arguments = f"{folder}/log.csv --config {folder}/map.json --output {folder}/policy.npz"
    assert main(f"learn {arguments} --json {folder}/answer.json --report {folder}/report.html".split()) == 0
    return folder


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its exit status, standard output and standard error."""

    def run(*arguments) -> tuple[int, str, str]:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def answer(run, tmp_path):
    """Return a function that runs a command, which succeeds, and returns its answer and its text in one line."""

    def answer(*arguments) -> tuple[dict, str]:
        status, text, error = run(*arguments, "--json", tmp_path / "answer.json")
        assert (status, error) == (0, "")
        assert max(map(len, text.splitlines())) <= 110
        return answer_of(tmp_path / "answer.json"), " ".join(text.split())

    return answer


def answer_of(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
