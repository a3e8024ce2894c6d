"""The example log: complete, never overwriting, and followed by a command that runs."""

import shlex

import pandas as pd

from drcrm.logs.cli.example import FILES, MAPPING


def test_the_next_command_runs(tmp_path, run, monkeypatch):
    status, output, error = run("example", tmp_path / "new folder")
    assert (status, error) == (0, "")
    assert sorted(path.name for path in (tmp_path / "new folder").iterdir()) == sorted(FILES)
    monkeypatch.chdir(tmp_path)
    shop, mapping = tmp_path / "new folder/shop.csv", tmp_path / "new folder/shop.yaml"
    pd.read_csv(shop).head(400).to_csv(shop, index=False)
    mapping.write_text(f"{MAPPING}algorithm: cips\n")
    program, *arguments = shlex.split(output.splitlines()[-1])
    assert (program, run(*arguments)[0]) == ("drcrm", 0)
    assert (tmp_path / "new folder/report.html").exists()


def test_no_file_is_overwritten(tmp_path, run):
    (tmp_path / "rule.csv").write_text("mine")
    status, _, error = run("example", tmp_path)
    assert (status, "rule.csv exists already" in error, len([*tmp_path.iterdir()])) == (1, True, 1)
    assert "is a file, expected a folder" in run("example", tmp_path / "rule.csv")[2]
