"""The documents are made of results: what `make docs` puts in, and what it says when there are none."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest

from drcrm.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
DIFFERENCES = {
    "metric": "expected_loss",
    "dataset": "yeast",
    "replay_count": [1, 4, 16],
    "selection": "snips",
    "algorithm": "kl_crm",
    "difference": [-0.5, 0.25, 0.0],
    "standard_error": 0.125,
    "p_smaller": [0.001, 0.9, 0.5],
    "n_seeds": 10,
}


@pytest.fixture
def build(tmp_path, monkeypatch):
    """docs/build.py, for a project with the results of one experiment."""
    specification = importlib.util.spec_from_file_location("build", ROOT / "docs/build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for name in ("config.yaml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/added.yaml").write_text("experiments: {added: {datasets: [digits], seeds: 7}}\n")
    (tmp_path / "results/sample/tables").mkdir(parents=True)
    pd.DataFrame(DIFFERENCES).to_csv(tmp_path / "results/sample/tables/differences_to_poem.csv", index=False)
    return module


def document(folder: Path, text: str) -> Path:
    path = folder / "docs/page.md"
    path.write_text(text)
    return path


def test_a_block_is_replaced_and_the_rest_stays(build, tmp_path):
    opening = "<!-- differences sample expected_loss snips kl_crm 1,4 -->\n"
    page = document(tmp_path, f"Before.\n\n{opening}old 1.234\n<!-- end -->\n\nAfter.\n")
    text = build.filled(page)
    assert text.startswith(f"Before.\n\n{opening}")
    assert text.endswith("<!-- end -->\n\nAfter.\n")
    assert "old" not in text
    assert "| Yeast | 1 | 10 | -0.500 ± 0.125 (0.001) |" in text
    assert "| Yeast | 4 | 10 | +0.250 ± 0.125 (0.9) |" in text
    assert "| 16 |" not in text
    assert build.filled(document(tmp_path, text)) == text


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            "losses paper expected_loss ips",
            "results/paper/tables/expected_loss.csv: no such file; `snakemake paper`",
        ),
        ("rows paper", "results/paper/metrics.csv: no such file; `snakemake paper` makes it"),
        (
            "rows added",
            "results/added/metrics.csv: no such file; `snakemake added --configfile docs/added.yaml` makes it",
        ),
        ("figure sample grid yeast", "results/sample/figures/grid_yeast.png: no such file"),
        ("picture sample", "page.md: unknown block 'picture', expected one of losses, details, "),
    ],
)
def test_what_is_missing_is_named(build, tmp_path, block, message):
    with pytest.raises(InputError, match="^" + message.replace("(", r"\(")):
        build.filled(document(tmp_path, f"<!-- {block} -->\n<!-- end -->\n"))


@pytest.mark.parametrize(("name", "seeds"), [("grid", 20), ("replay_count", 10)])
def test_a_figure_is_copied_and_has_the_captions_of_the_report(build, tmp_path, name, seeds):
    source = tmp_path / f"results/sample/figures/{name}_yeast.png"
    source.parent.mkdir()
    source.write_bytes(b"a picture")
    text = build.filled(document(tmp_path, f"<!-- figure sample {name} yeast -->\n<!-- end -->\n"))
    [picture] = re.findall(r'src="(.*?)"', text)
    assert (tmp_path / "docs" / picture).read_bytes() == b"a picture"
    assert re.search(rf"Expected Hamming loss on Yeast .* {seeds} seeds .* clipped SNIPS", " ".join(text.split()))


def test_an_experiment_may_have_its_configuration_beside_the_documents(build):
    assert build.configured("added")["seeds"] == 7
    assert build.configured("demo")["seeds"] == 5


def test_rows_are_copied_and_linked(build, tmp_path):
    for name in ("metrics", "grids"):
        (tmp_path / f"results/sample/{name}.csv").write_text(f"{name},x\n1,2.5\n")
    text = build.filled(document(tmp_path, "<!-- rows sample -->\n<!-- end -->\n"))
    for name, target in re.findall(r"\[(.*?)\]\((.*?)\)", text):
        assert pd.read_csv(tmp_path / "docs" / target)["x"].tolist() == [2.5], name
    assert len(list((tmp_path / "docs/results").iterdir())) == 2


def test_the_documents_have_known_blocks(build):
    for path in build.DOCUMENTS:
        for _, kind, _, _ in build.BLOCK.findall(path.read_text(encoding="utf-8")):
            assert kind in build.KINDS
