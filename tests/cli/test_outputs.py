"""Where commands write to: standard output, pipes, links, and never over what they read."""

from __future__ import annotations

import io
import json
import os
import stat
import threading

import numpy as np
import pandas as pd
import pytest
from mapped_logs import mapped_files
from shop import MAPPING, decisions

from drcrm.__main__ import main
from drcrm.logs.policy_file import read_policy


@pytest.fixture
def piped(capfdbinary):
    """Run a command that succeeds; what is on its standard output, by descriptor, and on standard error."""

    def piped(*arguments) -> tuple[bytes, str]:
        assert main([str(each) for each in arguments]) == 0
        output, said = capfdbinary.readouterr()
        return output, said.decode()

    return piped


@pytest.fixture
def null(monkeypatch) -> str:
    """The path of the device that forgets, which nothing here can replace: tests may run as root."""
    replace = os.replace

    def guarded(source, target):
        assert os.path.realpath(target) != os.devnull
        replace(source, target)

    monkeypatch.setattr(os, "replace", guarded)
    return os.devnull


@pytest.mark.parametrize("command", ["certify", "evaluate_policy", "diagnose"])
def test_an_answer_on_standard_output_is_alone_there(shop, piped, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    judged = [shop / "later.parquet", "--config", shop / "map.json"]
    given = [command, *([] if command == "diagnose" else [shop / "policy.npz"]), *judged]
    plain, _ = piped(*given)
    output, said = piped(*given, "--json", "-")
    assert json.loads(output)["command"] == command
    assert said == plain.decode()
    output, said = piped(*given, "--report", "/dev/stdout")
    assert output.startswith(b"<!doctype html>")
    assert said == plain.decode()
    assert os.listdir(tmp_path) == []


def test_a_policy_on_standard_output_is_that_of_the_file(shop, piped, tmp_path, null):
    given = ["learn", shop / "log.csv", "--config", shop / "map.json"]
    output, said = piped(*given, "--output", "-", "--json", null, "--report", null)
    (tmp_path / "policy.npz").write_bytes(output)
    assert np.array_equal(
        read_policy(tmp_path / "policy.npz").policy.coef, read_policy(shop / "policy.npz").policy.coef
    )
    assert said.startswith("Better than")


def test_a_policy_does_not_go_to_a_terminal(shop, run, monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    status, _, said = run("learn", shop / "log.csv", "--config", shop / "map.json", "--output", "-")
    assert status == 1
    assert said == "drcrm learn: --output - is a terminal, expected a file or a pipe: a policy is binary\n"


def test_a_large_log_is_not_stored_beside_a_stream(shop, run, monkeypatch, null):
    """The folder would be in /dev."""
    before = sorted(os.listdir(shop))
    with mapped_files(monkeypatch) as folders:
        status, _, _ = run("learn", shop / "log.csv", "--config", shop / "map.json", "--output", null)
    assert status == 0
    assert [folder.parent for folder in folders] == [shop]
    assert sorted(os.listdir(shop)) == before


@pytest.mark.parametrize("suffix", ["", ".parquet"])
def test_decisions_go_down_a_pipe(shop, tmp_path, suffix, piped):
    """Parquet needs to seek, which a pipe cannot."""
    output, _ = piped("predict", shop / "policy.npz", shop / "log.csv", "--output", "-")
    os.mkfifo(pipe := tmp_path / f"pipe{suffix}")
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    piped("predict", shop / "policy.npz", shop / "log.csv", "--output", pipe)
    reader.join(10)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    read = pd.read_parquet if suffix else pd.read_csv
    pd.testing.assert_frame_equal(read(io.BytesIO(received[0])), pd.read_csv(io.BytesIO(output)), check_dtype=False)


class TestPathsApart:
    """Of a copy of the shop's folder, in which nothing must change."""

    @pytest.fixture
    def refused(self, tmp_path, run):
        decisions(50).to_csv(tmp_path / "log.csv", index=False)
        (tmp_path / "map.json").write_text(json.dumps(MAPPING))
        (tmp_path / "link.csv").symlink_to("log.csv")
        os.link(tmp_path / "log.csv", tmp_path / "hard.csv")
        (tmp_path / "new.csv").symlink_to("absent.csv")

        def refused(*arguments) -> str:
            before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.exists()}
            given = [tmp_path / each if "." in str(each) and "/" not in str(each) else each for each in arguments]
            status, _, said = run("diagnose", *given)
            assert status == 1
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.exists()} == before
            return said.replace(f"{tmp_path}/", "")

        return refused

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["log.csv", "--json", "log.csv"], "log.csv is both --json and log"),
            (["log.csv", "--json", "link.csv"], "link.csv is both --json and log"),
            (["link.csv", "--json", "log.csv"], "log.csv is both --json and log"),
            (["log.csv", "--json", "hard.csv"], "hard.csv is both --json and log"),
            (["log.csv", "--config", "map.json", "--report", "map.json"], "map.json is both --report and config"),
            (["log.csv", "--json", "new.csv", "--report", "absent.csv"], "new.csv is both --json and report"),
            (["log.csv", "--json", "-", "--report", "-"], "- is both --json and report"),
            (["log.csv", "--json", "-", "--report", "/dev/stdout"], "- is both --json and report"),
        ],
    )
    def test_a_place_that_is_used_twice(self, refused, arguments, message):
        assert refused(*arguments) == f"drcrm diagnose: {message}, expected a file each\n"

    def test_a_file_of_the_folder_that_is_read(self, tmp_path, run):
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs/a.csv").write_text("data")
        status, _, said = run("diagnose", tmp_path / "logs", "--json", tmp_path / "logs/a.csv")
        assert status == 1
        assert said.endswith("logs, which is read; expected another file\n")
        assert (tmp_path / "logs/a.csv").read_text() == "data"

    def test_two_outputs_that_are_forgotten(self, shop, run, null):
        given = ["--config", shop / "map.json", "--json", null, "--report", null]
        status, said, _ = run("diagnose", shop / "log.csv", *given)
        assert status == 0
        assert said
