"""The mappings, the command and the code of user-guide/router-logs.md work."""

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from drcrm import read_log
from drcrm.__main__ import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "user-guide/router-logs.md").read_text(encoding="utf-8")
ROUTER, EXPOSURES = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S))


def test_weights_of_exposures_are_texts_in_csv(tmp_path):
    frame = pd.DataFrame(
        {"variation_id": [0, 1, 1, 0], "variation_weights": ["[0.9, 0.1]", "[0.9,0.1]", "[0.5,0.5]", "0.5 0.5"]}
    )
    frame = frame.assign(converted=[0, 1, 0, 1], country="ch", device=["a", "b", "a", "b"], user_id=range(4))
    frame.to_csv(tmp_path / "exposures.csv", index=False)
    log = read_log(tmp_path / "exposures.csv", EXPOSURES)
    np.testing.assert_allclose(log.propensity, [0.9, 0.1, 0.5, 0.5])


def test_the_code_computes_weights():
    [code] = re.findall(r"```py\n(.*?)```", PAGE, re.S)
    scope = {"draws": np.random.default_rng(0).normal([0, 0, 3], 1, (1000, 3))}
    exec(code, scope)
    assert scope["weights"].sum() == pytest.approx(1)
    assert scope["weights"].argmax() == 2


@pytest.mark.slow
def test_the_command_learns_a_better_router(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["router.py", str(tmp_path)])
    example = runpy.run_path(str(DOCS / "examples/router.py"))
    assert yaml.safe_load(example["MAPPING"]) == ROUTER
    assert example["answer"].as_dict()["verdict"]["verdict"] == "better"
    [command] = re.findall(r"```sh\n(.*?)\n```", PAGE, re.S)
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command)[1:]
    assert main([*arguments, "--json", "answer.json"]) == 0
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert {rail["name"] for rail in answer["guardrails"]} == {"price", "latency"}
