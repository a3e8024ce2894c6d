"""Generated pages of the reference list every command, mapping key and configuration key with its meaning."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from pages.reference_pages import command_parsers, config_keys, format_commands, mapping_keys
from pages.repository_pages import link_experiments, relink

from drcrm.logs.cli.arguments import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
MODULES = "drcrm", "drcrm.certificates", "drcrm.risks", "drcrm.divergences"
MAPPING, CONFIG = ROOT / "src/drcrm/mapping/mapping.schema.json", ROOT / "workflow/schemas/config.schema.yaml"


def rows_of(page: str) -> list[list[str]]:
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_all_options(name):
    section = format_commands().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    actions = command_parsers()[name]._actions
    options = {option for action in actions for option in action.option_strings}
    assert options <= set(re.findall(r"(?<![\w-])--?\w[\w-]*", section))
    assert all(action.help for action in actions)


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs/reference/api.rst").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in page.split(".. currentmodule:: ")[1:]]
    for module in MODULES:
        names = {name for home, _, text in sections if home == module for name in re.findall(r"^   (\w+)$", text, re.M)}
        assert set(import_module(module).__all__) - {"DIVERGENCES"} == names


def test_every_mapping_key_is_explained():
    page = mapping_keys()
    assert page in (ROOT / "docs/user-guide/log-formats.md").read_text(encoding="utf-8"), "run `make docs`"
    assert [row[0].strip(" `") for row in rows_of(page)] == list(json.loads(MAPPING.read_text())["properties"])
    assert all(cell.strip() for row in rows_of(page) for cell in row)


def test_every_configuration_key_is_explained():
    schema = yaml.safe_load(CONFIG.read_text())
    page = config_keys()
    assert page in (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8"), "run `make docs`"
    keys = {key for kind in ("dataset", "algorithm", "experiment") for key in schema["$defs"][kind]["properties"]}
    documented = {re.match(r" `(\w+)`", row[0])[1] for row in rows_of(page)}
    assert keys | set(schema["properties"]) <= documented
    assert not [row[0] for row in rows_of(page) if not (row[1].strip() and row[3].strip())]


def test_links_of_a_moved_file_lead_to_the_same_place():
    text = '[a](docs/paper/theory.md#x) [b](../b.md) [c](https://d.e/f) [g](#h) <img src="docs/figures/i.png">'
    moved = relink(text, "README.md", "docs/index.md")
    assert moved == '[a](paper/theory.md#x) [b](../../b.md) [c](https://d.e/f) [g](#h) <img src="figures/i.png">'
    rows = "[a](../results/beyond_metrics.csv.gz) [b](../results/kinds.csv)"
    assert link_experiments(rows) == "[a](../experiments/beyond.md) [b](../results/kinds.csv)"
    assert relink("[a](../../README.md)", "docs/paper/a.md", "docs/paper/a.md") == "[a](../index.md)"
