"""Outputs of commands: standard output, pipes, links, and never the files that they read."""

import io
import json
import os
import shutil
import stat
import threading

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import MAPPING, decisions

from drcrm.__main__ import main
from drcrm.logs.policy_file import read_policy


@pytest.fixture
def run_binary(capfdbinary):
    """Run a command that succeeds; return the bytes on standard output and the text on standard error."""

    def run_binary(*arguments) -> tuple[bytes, str]:
        assert main([str(argument) for argument in arguments]) == 0
        output, error = capfdbinary.readouterr()
        return output, error.decode()

    return run_binary


@pytest.fixture
def null(monkeypatch) -> str:
    """The path of the null device; a command must not replace it, since tests may run as root."""
    replace = os.replace

    def guarded(source, target):
        assert os.path.realpath(target) != os.devnull
        replace(source, target)

    monkeypatch.setattr(os, "replace", guarded)
    return os.devnull


def test_nothing_else_is_on_standard_output_with_an_answer(shop, run_binary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["diagnose", shop / "later.parquet", "--config", shop / "map.json"]
    text, _ = run_binary(*arguments)
    output, error = run_binary(*arguments, "--json", "-")
    assert json.loads(output)["command"] == "diagnose"
    assert error == text.decode()
    output, error = run_binary(*arguments, "--report", "/dev/stdout")
    assert output.lstrip().startswith(b"<!doctype html>")
    assert error == text.decode()
    assert os.listdir(tmp_path) == []


def test_a_policy_on_standard_output_equals_that_in_a_file(shop, run_binary, tmp_path, null):
    arguments = ["learn", shop / "log.csv", "--config", shop / "map.json"]
    output, error = run_binary(*arguments, "--output", "-", "--json", null, "--report", null)
    (tmp_path / "policy.npz").write_bytes(output)
    coef, expected = (read_policy(folder / "policy.npz").policy.coef for folder in (tmp_path, shop))
    assert np.array_equal(coef, expected)
    assert error


def test_a_policy_is_not_written_to_a_terminal(shop, run, monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    status, _, error = run("learn", shop / "log.csv", "--config", shop / "map.json", "--output", "-")
    assert (status, "--output - is a terminal" in error) == (1, True)


@pytest.mark.parametrize("suffix", ["", ".parquet"])
def test_actions_can_be_written_to_a_pipe(shop, tmp_path, suffix, run_binary):
    """Parquet needs to seek, which a pipe cannot."""
    output, _ = run_binary("predict", shop / "policy.npz", shop / "log.csv", "--output", "-")
    os.mkfifo(pipe := tmp_path / f"pipe{suffix}")
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    run_binary("predict", shop / "policy.npz", shop / "log.csv", "--output", pipe)
    reader.join(10)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    read = pd.read_parquet if suffix else pd.read_csv
    pd.testing.assert_frame_equal(read(io.BytesIO(received[0])), pd.read_csv(io.BytesIO(output)), check_dtype=False)


class TestSeparateOutputs:
    """Outputs that are inputs, folders or used twice are refused, and no file changes."""

    @pytest.fixture
    def refuse(self, shop, tmp_path, run, monkeypatch):
        monkeypatch.chdir(tmp_path)
        decisions(50).to_csv("log.csv", index=False)
        (tmp_path / "map.json").write_text(json.dumps(MAPPING))
        (tmp_path / "link.csv").symlink_to("log.csv")
        os.link("log.csv", "hard.csv")
        (tmp_path / "new.csv").symlink_to("absent.csv")
        shutil.copy(shop / "policy.npz", tmp_path)
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs/a.csv").write_text("data")

        def contents() -> dict:
            return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

        def refuse(line: str) -> str:
            before = contents()
            status, _, error = run(*line.split())
            assert (status, error.count("\n")) == (1, 1)
            assert contents() == before
            return error

        return refuse

    def test_outputs_are_checked_before_the_log_is_read(self, refuse, monkeypatch):
        assert "Not a directory: 'map.json/a.json'" in refuse("diagnose none.csv --json map.json/a.json")
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # tests may run as root, who may write anywhere
        assert "--report new/a.html cannot be written" in refuse("diagnose none.csv --report new/a.html")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("diagnose log.csv --json log.csv", "log.csv is both --json and log"),
            ("diagnose log.csv --json link.csv", "link.csv is both --json and log"),
            ("diagnose link.csv --json log.csv", "log.csv is both --json and log"),
            ("diagnose log.csv --json hard.csv", "hard.csv is both --json and log"),
            ("diagnose log.csv --config map.json --report map.json", "map.json is both --report and config"),
            ("diagnose log.csv --json new.csv --report absent.csv", "new.csv is both --json and report"),
            ("diagnose log.csv --json - --report -", "- is both --json and report"),
            ("diagnose log.csv --json - --report /dev/stdout", "- is both --json and report"),
            ("diagnose logs --json logs/a.csv", "is a file of the input folder logs"),
            ("learn log.csv --output log.csv", "is both --output and log"),
            ("learn log.csv --output p.npz --json logs/../p.npz", "p.npz is both --output and json"),
            ("learn log.csv --output logs", "must be a file, got the folder 'logs'"),
            ("predict policy.npz log.csv --output log.csv", "is both --output and contexts"),
            ("certify policy.npz log.csv --json policy.npz", "is both --json and policy"),
        ],
    )
    def test_a_path_that_is_used_twice(self, refuse, line, message):
        assert message in refuse(line)
