"""Generated pages and tables of the documentation: content, error messages and links, and that they are current."""

import gzip
import importlib.util
import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import yaml
from build import TABLES, experiment_page, fill, hand_written_pages
from pages.reference_pages import command_parsers, config_keys, format_commands, mapping_keys
from pages.repository_pages import link_experiments, relink

from drcrm.errors import InputError
from drcrm.logs.cli.arguments import COMMANDS
from drcrm.paper import COLUMNS, GRID_COLUMNS
from drcrm.paper.config import project_config

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
FILES = {ROOT / name for name in TRACKED}
FOLDERS = {folder for path in FILES for folder in path.parents}
DOCUMENTS = sorted(path for path in FILES if path.suffix == ".md")
LOSSES = {"logging": 3.0, "cips": 2.0, "poem": 1.0, "kl_dro": 1.5, "skyline": 0.5}
SMALL = """
experiments:
  small:
    datasets: [DATASET]
    seeds: 3
    selection: [snips, ips]
    algorithms: [cips, poem, kl_dro]
    replay_curve: {datasets: [DATASET], counts: [1, 4], seeds: 3}
"""
SECTIONS = [
    "Expected loss",
    "Greedy loss",
    "Hyper-parameters",
    "Comparison with the paper",
    "Differences to POEM",
]
METRICS, GRIDS = "docs/results/small_metrics.csv.gz", "docs/results/small_grids.csv.gz"
MODULES = "drcrm", "drcrm.certificates", "drcrm.risks", "drcrm.divergences"
MAPPING, CONFIG = ROOT / "src/drcrm/mapping/mapping.schema.json", ROOT / "workflow/schemas/config.schema.yaml"
BLOCK = re.compile(r"<!-- (?:table|study|losses)\b[^\n]*? -->\n.*?<!-- end -->", re.DOTALL)
BLOCKS = {
    block[0].split(" -->")[0]: block[0]
    for path in hand_written_pages()
    for block in BLOCK.finditer(path.read_text(encoding="utf-8"))
}


def load_build(root: Path) -> ModuleType:
    """Load docs/build.py for a project in a folder."""
    specification = importlib.util.spec_from_file_location("build", ROOT / "docs/build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.ROOT = root
    return module


def write_project(root: Path, dataset: str = "yeast", missing: tuple[str, int] | None = None) -> ModuleType:
    """Write a project with one experiment, whose losses are ``LOSSES`` plus 0, 0.1, 0.2; one run may be missing."""
    for name in ("config.yaml", "workflow", "studies"):
        (root / name).symlink_to(ROOT / name)
    (root / "docs/results").mkdir(parents=True)
    for folder in ("paper", "reference"):
        (root / "docs" / folder).mkdir()
    for name in ("README.md", "docs/paper/findings.md", "docs/paper/theory.md"):
        (root / name).write_text("")
    metrics, grids = [], []
    for name, loss in LOSSES.items():
        for count, seed in [(count, seed) for count in (1, 4) for seed in range(3) if (name, seed) != missing]:
            key = {"dataset": dataset, "replay_count": count, "seed": seed, "algorithm": name}
            run = {"expected_loss": loss + seed / 10, "greedy_loss": loss / 2 + seed / 10, "converged": 1}
            run["hyperparameter"] = 0.01 if name in ("poem", "kl_dro") else None
            metrics += [{**key, **run, "selection": selection, "score": -1.0} for selection in ("snips", "ips")]
            grids += [{**key, **run}] if name in ("poem", "kl_dro") else []
    (root / "docs/small.yaml").write_text(SMALL.replace("DATASET", dataset))
    pd.DataFrame(metrics).reindex(columns=COLUMNS).to_csv(root / METRICS, index=False)
    pd.DataFrame(grids).reindex(columns=GRID_COLUMNS).to_csv(root / GRIDS, index=False)
    (root / "docs/results/small_provenance.json").write_text("{}")
    return load_build(root)


@pytest.fixture
def build(tmp_path):
    """docs/build.py for a project that a test may change."""
    return write_project(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """docs/build.py for a project that tests only read."""
    return write_project(tmp_path_factory.mktemp("finished"))


def page_of(build) -> str:
    return build.experiment_page("small")


def titles(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


@pytest.mark.slow
def test_committed_documents_are_current():
    build = load_build(ROOT)
    documents = build.filled_documents()
    stale = [path.name for path, text in documents.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"
    images = {*build.drawn_figures(), "own_log.png", "policy_tree.png"}  # the last two are screenshots of a report
    assert images == {path.name for path in (ROOT / "docs/figures").iterdir()}
    assert max(path.stat().st_size for path in (ROOT / "docs/figures").iterdir()) <= 120_000


def test_a_page_has_all_sections_and_numbers(finished):
    text = finished.experiment_documents()[finished.ROOT / "docs/experiments/small.md"]
    assert text.startswith("# small\n\nThe [configuration]")
    assert "## What was run\n\n```yaml\nsmall:\n  datasets: [" in text
    assert titles(text) == ["What was run", *SECTIONS]
    assert "[every fit](../results/small_grids.csv.gz)" in text
    _, _, *sections = re.split("^## .*\n", text, flags=re.MULTILINE)
    expected, greedy, hyperparameters, paper, differences = sections
    assert expected.count("| POEM | **1.100** ± 0.058 |") == 2  # by SNIPS and by IPS
    assert expected.count("95 % interval |") == 1
    assert "| POEM | **0.600** ± 0.058 |" in greedy
    assert "| POEM | 10^−6 … 10^0 | IPS | 10^−2: 3 |" in hyperparameters
    assert "| Yeast | POEM | SNIPS | 4.535 | 1.100 ± 0.058 | −3.435 (−59.5) |" in paper
    assert "| Yeast | 4 | 3 | +1.000 ± 0.000 (1) | +0.500 ± 0.000 (1) |" in differences


def test_blocks_are_replaced_and_other_text_is_kept(finished):
    losses, studies = "<!-- losses small greedy_loss ips -->\n", "<!-- table studies -->\n"
    text = finished.fill(f"Before.\n\n{losses}stale\n<!-- end -->\n\n{studies}<!-- end -->\n\nAfter.\n")
    assert text.startswith(
        f"Before.\n\n{losses}\nGreedy Hamming loss on the test set of Yeast, hyper-parameters chosen by IPS"
    )
    assert f"{studies}\n| study | question |\n| --- | --- |\n| `anytime` | How often " in text
    assert text.endswith("\n<!-- end -->\n\nAfter.\n")
    assert "stale" not in text
    assert finished.fill(text) == text


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("picture small grid yeast", "no block 'picture small grid yeast' ('picture'): expected losses name metric "),
        ("losses small", "no block 'losses small' (losses_block() missing 2 required"),
        ("losses small greedy_loss top", "small has no table of greedy_loss by top, only of expected_loss, greedy_los"),
        ("theory gone", "no block 'theory gone' ('gone'): expected "),
        ("table gone", "no block 'table gone' ('gone'): expected "),
        ("losses gone greedy_loss ips", "no experiment 'gone' in config.yaml or docs/gone.yaml"),
        ("losses demo greedy_loss ips", "docs/results/demo_metrics.csv.gz: no such file"),
    ],
)
def test_an_invalid_block_is_reported(finished, block, message):
    with pytest.raises(InputError, match=f"^.*{re.escape(message)}.*$"):
        finished.fill(f"<!-- {block} -->\n<!-- end -->\n")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (METRICS, b"no rows", "small_metrics.csv.gz: not a readable csv file"),
        (METRICS, gzip.compress(b"a,b\n" * 99, mtime=0)[:-9], "metrics.csv.gz: not a readable csv"),
        (METRICS, gzip.compress(b"a,b\n1,2\n", mtime=0), "metrics.csv.gz: no column 'dataset'"),
        ("docs/results/small_provenance.json", b"{", "small_provenance.json: no readable provenance"),
        ("docs/results/small_provenance.json", b"[]", "small_provenance.json: no readable provenance (not a JSON"),
        ("docs/results/small_provenance.json", b'{"options": {"seeds": 2}}', "seeds was 2 in the run, but is 3 in the"),
        (
            "docs/small.yaml",
            SMALL.replace("DATASET", "scene").encode(),
            "no run with dataset 'scene', selection",
        ),
        ("docs/small.yaml", b"experiments: {other: {datasets: [yeast]}}", "no experiment 'small' in config.yaml or"),
    ],
)
def test_an_invalid_file_is_reported(build, file, content, message):
    (build.ROOT / file).write_bytes(content)
    with pytest.raises(InputError, match=f"^.*{re.escape(message)}.*$"):
        page_of(build)


def test_every_experiment_is_described():
    described = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
    names = {*load_build(ROOT).finished(), *project_config(ROOT)["experiments"]}
    assert not [name for name in names if f"\n| `{name}` | " not in described]


def test_the_page_of_an_older_run_is_written():
    """Its record has options that the configuration has no more."""
    assert experiment_page("beyond").startswith("# beyond\n")


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(link: str, document: Path) -> bool:
    target, _, anchor = link.partition("#")
    path = (document.parent / target).resolve() if target else document
    return path not in FILES | FOLDERS or bool(anchor and anchor not in anchors(path))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_exist_in_a_clone(document):
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    assert not [link for link in links if not re.match(r"\w+:", link) and is_broken(link, document)]


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


@pytest.mark.parametrize("name", BLOCKS)
def test_a_table_is_current(name):
    assert fill(BLOCKS[name]) == BLOCKS[name], "run `make docs`"


def test_every_table_is_on_a_page():
    assert {f"<!-- table {name}" for name in TABLES} <= set(BLOCKS)
