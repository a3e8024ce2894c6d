"""The documents are made of committed rows: pages as they should be, and up to date; every link leads somewhere."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from drcrm.errors import InputError
from drcrm.experiments.columns import COLUMNS, GRID_COLUMNS
from drcrm.reports.tables.documents import provenance

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for name in ("config", "docs") for path in (ROOT / name).rglob("*.md"))])
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


def build_in(root: Path, monkeypatch):
    """docs/build.py, for a project in a folder."""
    specification = importlib.util.spec_from_file_location("build", ROOT / "docs/build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", root)
    return module


@pytest.fixture
def build(tmp_path, monkeypatch):
    """docs/build.py, for a project with the rows of a small experiment on Yeast."""
    for name in ("config.yaml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "docs/configuration.md").write_text("| `small` | three seeds of Yeast |\n")
    for name in ("README.md", "docs/findings.md", "docs/theory.md"):
        (tmp_path / name).write_text("")
    keep(tmp_path)
    return build_in(tmp_path, monkeypatch)


def keep(root: Path, data: str = "yeast", lost: tuple[str, int] | None = None, provenance: dict | None = None) -> None:
    """Commit rows that tell algorithm and seed: its loss above plus 0, 0.1, 0.2; one run may be lost."""
    metrics, grids = [], []
    for name, loss in LOSSES.items():
        for count, seed in [(count, seed) for count in (1, 4) for seed in range(3) if (name, seed) != lost]:
            key = {"dataset": data, "replay_count": count, "seed": seed, "algorithm": name}
            run = {"expected_loss": loss + seed / 10, "greedy_loss": loss / 2 + seed / 10, "converged": 1}
            run["hyperparameter"] = 0.01 if name in ("poem", "kl_dro") else None
            metrics += [{**key, **run, "selection": selection, "score": -1.0} for selection in ("snips", "ips")]
            grids += [{**key, **run}] if name in ("poem", "kl_dro") else []
    (root / "docs/small.yaml").write_text(SMALL.replace("DATASET", data))
    for kind, rows, columns in [("metrics", metrics, COLUMNS), ("grids", grids, GRID_COLUMNS)]:
        table = pd.DataFrame(rows).reindex(columns=columns)
        table.to_csv(root / f"docs/results/small_{kind}.csv.gz", index=False)
    (root / "docs/results/small_provenance.json").write_text(json.dumps(provenance or {}))


def page(build) -> str:
    return build.texts()[build.ROOT / "docs/experiments/small.md"]


def titles(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.M)


ALL = ["What was run", "Expected loss", "Greedy loss", "Hyper-parameters", "Beside the paper", "Differences to POEM"]


@pytest.mark.slow
def test_the_committed_documents_are_those_that_the_committed_rows_make(monkeypatch):
    build = build_in(ROOT, monkeypatch)
    made = build.texts()
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"
    assert set((ROOT / "docs/experiments").iterdir()) < set(made)
    pictures = [picture for name in build.finished() for picture in build.experiment(name).pictures]
    drawn = {Path(link).name for picture in pictures for link in picture.links.values()}
    drawn |= {f"{name}_overview.png" for name in build.finished() if build.experiment(name).overview}
    drawn |= {Path(family.link).name for family in build.families().values()}
    drawn |= set(build.theory_figures()) | {f"{name}.png" for name in build.STUDY_FIGURES}
    drawn.add("own_log.png")  # the page of docs/own-logs.md, in a browser
    assert drawn == {path.name for path in (ROOT / "docs/figures").iterdir()}
    assert max(path.stat().st_size for path in (ROOT / "docs/figures").iterdir()) <= 100_000


def test_a_page(build):
    text = page(build)
    assert text.startswith("# small\n\nThree seeds of Yeast.\n\n## What was run\n\n```yaml\nsmall:\n  datasets: [")
    assert titles(text) == [*ALL, "Figures"]
    assert "[every fit](../results/small_grids.csv.gz)" in text
    parts = dict(zip(titles(text), re.split("^## .*\n", text, flags=re.M)[1:], strict=True))
    assert parts["Expected loss"].count("| POEM | **1.100** ± 0.058 |") == 2  # by SNIPS and by IPS
    assert parts["Expected loss"].count("95 % interval |") == 1
    assert "| POEM | **0.600** ± 0.058 |" in parts["Greedy loss"]
    assert "| POEM | 10^−6 … 10^0 | IPS | 0 0 0 0 3 0 0 |" in parts["Hyper-parameters"]
    assert "| Yeast | POEM | SNIPS | 4.535 | 1.100 ± 0.058 | −3.435 (−59.5) |" in parts["Beside the paper"]
    lines = [line for line in parts["Differences to POEM"].splitlines() if line.startswith("| Yeast")]
    assert lines[:2] == [f"| Yeast | {count} | 3 | +1.000 ± 0.000 (1) | +0.500 ± 0.000 (1) |" for count in (1, 4)]
    assert re.findall(r'src="(.*?)"', parts["Figures"]) == ["../figures/small_replay_count_yeast.png"]
    assert "on Yeast against the replay count Δ, the number of π0's passes" in parts["Figures"]
    assert (
        "Points are means over 3 seeds with 95 % intervals; hyper-parameters are chosen by SNIPS." in parts["Figures"]
    )


def test_experiments_of_a_family_share_a_page_and_a_figure(build, tmp_path, monkeypatch):
    sharp = {"small": 1, "small_sharp": 4}
    for path in [*(tmp_path / "docs/results").iterdir(), tmp_path / "docs/small.yaml"]:
        text = path.read_bytes()
        (path.parent / path.name.replace("small", "small_sharp")).write_bytes(
            text.replace(b" small:", b" small_sharp:")
        )
    plain = build.configured

    def configured(name: str) -> dict:
        config = plain(name)
        config["datasets"]["yeast"]["actions"] = "single"
        config["experiments"][name] |= {"logging_sharpness": sharp[name], "click_rates": [1, 0]}
        return config

    monkeypatch.setattr(build, "configured", configured)
    monkeypatch.setattr(build, "FAMILIES", {"small": ("cips", "kl_dro")})
    pages = build.texts()
    assert [path.name for path in pages if path.parent.name == "experiments"] == ["small.md"]
    text = pages[tmp_path / "docs/experiments/small.md"]
    assert titles(text) == ["What was run", "Figure", "Yeast"]
    assert "| `small_sharp` | logging_sharpness: 4 | [every run, algorithm and selection](" in text
    assert text.count("| POEM | **110.00** ± 5.77 | **110.00** ± 5.77 |") == 1
    assert "\n\nExpected error rate on Yeast in %, hyper-parameters chosen by SNIPS: mean" in text
    build.write_family_figures()
    assert [path.name for path in (tmp_path / "docs/figures").iterdir()] == ["small_sharpness.png"]


def test_rows_of_before_a_column_was_added_are_read(build, tmp_path):
    before = page(build)
    build.rows.cache_clear()
    build.experiment.cache_clear()
    for kind, later in {
        "metrics": ["tilt", "estimate", "bound", "effective_size"],
        "grids": ["dr", "dr_bound", "snips_bound", "ls_bound"],
    }.items():
        path = tmp_path / f"docs/results/small_{kind}.csv.gz"
        pd.read_csv(path).drop(columns=later).to_csv(path, index=False)
    assert page(build) == before
    assert list(build.rows("small", "metrics").columns) == COLUMNS
    assert list(build.rows("small", "grids").columns) == GRID_COLUMNS
    assert build.rows("small", "metrics")["tilt"].isna().all()


def test_a_seed_that_is_missing_is_said_to_be(build, tmp_path):
    keep(tmp_path, lost=("kl_dro", 2))
    text = page(build)
    assert text.count("| KL-DRO | missing |") == 6  # by each score and in the details, in both losses
    assert "| Yeast | 4 | 2 … 3 | +1.000 ± 0.000 (1) | missing |" in text
    assert titles(text) == [*ALL, "Figures"]


def test_an_experiment_without_rows_of_its_fits(build, tmp_path, monkeypatch):
    (tmp_path / "docs/results/small_grids.csv.gz").unlink()
    monkeypatch.setitem(build.FIGURES_OF, "small", tuple(build.FIGURES))
    text = page(build)
    assert "every fit" not in text
    assert "small_surprise_yeast.png" in text
    assert "small_grid_yeast.png" not in text


def test_certificates_are_drawn_of_rows_that_have_them(build, tmp_path, monkeypatch):
    monkeypatch.setitem(build.FIGURES_OF, "small", tuple(build.FIGURES))
    assert "small_certificates_yeast.png" not in page(build)
    build.rows.cache_clear()
    build.experiment.cache_clear()
    path = tmp_path / "docs/results/small_metrics.csv.gz"
    pd.read_csv(path).assign(bound=2.5).to_csv(path, index=False)
    text = page(build)
    assert "small_certificates_yeast.png" in text
    assert "Certified and true loss on Yeast. The true loss is the expected Hamming loss on the test set." in text
    assert "Rows were held out, not contexts: a bound speaks of the contexts that were logged" in text


def test_an_experiment_without_hyper_parameters(build, tmp_path):
    path = tmp_path / "docs/small.yaml"
    path.write_text(path.read_text().replace("[cips, poem, kl_dro]", "[cips]"))
    metrics = tmp_path / "docs/results/small_metrics.csv.gz"
    rows = pd.read_csv(metrics).query("algorithm not in ('poem', 'kl_dro')")
    rows.to_csv(metrics, index=False)
    assert titles(page(build)) == [*ALL[:3], "Beside the paper", "Figures"]


def test_an_experiment_on_data_that_the_paper_has_not(build, tmp_path):
    keep(tmp_path, data="digits")
    assert titles(page(build)) == [title for title in [*ALL, "Figures"] if title != "Beside the paper"]


def test_what_is_known_of_a_run_and_what_is_not():
    versions = {"python": "3.12.3", "numpy": "2.1.0", "snakemake": None}
    blas = [{"name": "openblas", "version": "0.3.30", "architecture": None}]
    known = {"commit": "0123456789abcdef", "clean": True, "versions": versions, "blas": blas}
    text = provenance({**known, "note": "Late."})
    assert text.startswith("Late.\n\n- commit: `0123456`, clean\n- packages: python 3.12.3, numpy 2.1.0\n")
    assert text.endswith("- BLAS: openblas 0.3.30\n")
    assert provenance({"commit": "0123456789abcdef", "clean": False}).startswith("- commit: `0123456`, with changes\n")
    assert provenance({"source": "0123456789abcdef", "commit": None}) == "- source: sha256 `0123456789ab`\n"
    assert provenance({"note": "Late.", "commit": None}) == "Late.\n"
    assert provenance({}) == "The code, the packages and the machine were not recorded.\n"


def test_blocks_of_the_readme_are_replaced_and_the_rest_stays(build, tmp_path):
    before = "Before.\n\n"
    losses, figure = "<!-- losses small greedy_loss ips -->\n", "<!-- figure small replay_count yeast -->\n"
    (tmp_path / "README.md").write_text(f"{before}{losses}stale\n<!-- end -->\n\n{figure}<!-- end -->\n\nAfter.\n")
    text = build.texts()[tmp_path / "README.md"]
    assert text.startswith(f"{before}{losses}\nGreedy Hamming loss on the test set, hyper-parameters chosen by IPS")
    assert f'{figure}\n<img src="docs/figures/small_replay_count_yeast.png"' in text
    assert text.endswith("\n<!-- end -->\n\nAfter.\n")
    assert "stale" not in text
    assert build.filled(text) == text


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("picture small grid yeast", "no block 'picture small grid yeast': expected losses with 3 arguments or figure"),
        ("losses small", "no block 'losses small': expected losses with 3 arguments or figure with 3"),
        (
            "losses small greedy_loss top",
            "small has no table of greedy_loss by top, only of expected_loss, greedy_loss by",
        ),
        ("overview small", "the page of small has no overview"),
        ("figure small grid yeast", "the page of small has no figure grid of yeast"),
        ("theory width", "no block 'theory width': expected losses with 3 arguments or figure with 3"),
        (
            "theory gone digits",
            "no figure 'gone' of the theory, only coverage_95, coverage_80, width, expansion, penal",
        ),
        ("theory width yeast", "the theory has no data set 'yeast'"),
        ("losses gone greedy_loss ips", "no experiment 'gone' in config.yaml or docs/gone.yaml"),
        ("losses demo greedy_loss ips", "docs/results/demo_metrics.csv.gz: no such file"),
    ],
)
def test_a_block_that_cannot_be_made(build, block, message):
    with pytest.raises(InputError) as error:
        build.filled(f"<!-- {block} -->\n<!-- end -->\n")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("docs/results/small_metrics.csv.gz", b"no rows", "small_metrics.csv.gz: not a readable csv file"),
        (
            "docs/results/small_metrics.csv.gz",
            gzip.compress(b"a,b\n" * 99, mtime=0)[:-9],
            "metrics.csv.gz: not a readable csv",
        ),
        (
            "docs/results/small_metrics.csv.gz",
            gzip.compress(b"a,b\n1,2\n", mtime=0),
            "metrics.csv.gz: no column 'dataset'",
        ),
        ("docs/results/small_provenance.json", b"{", "small_provenance.json: no readable provenance"),
        ("docs/results/small_provenance.json", b"[]", "small_provenance.json: no readable provenance (not a JSON"),
        ("docs/results/small_provenance.json", b'{"options": {"seeds": 2}}', "seeds was 2 in the run, and is 3 in the"),
        ("docs/small.yaml", SMALL.replace("DATASET", "scene").encode(), "no runs of data set 'scene' chosen by snips"),
        ("docs/small.yaml", b"experiments: {other: {datasets: [yeast]}}", "no experiment 'small' in config.yaml or"),
        ("docs/small.yaml", b"experiments: {small: {data: [yeast]}}", "config: experiments.small.data: unknown key"),
        ("docs/configuration.md", b"", "docs/configuration.md: its table of experiments has no 'small'"),
    ],
)
def test_a_page_that_cannot_be_made(build, tmp_path, file, content, message):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError) as error:
        build.texts()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_finished_experiment_is_taken_whole_or_not_at_all(build, tmp_path):
    (tmp_path / "results/small").mkdir(parents=True)
    before = {path: path.read_bytes() for path in (tmp_path / "docs/results").iterdir()}
    for name in ("metrics.csv", "grids.csv"):
        (tmp_path / "results/small" / name).write_text(f"{name},x\n1,2.5\n")
    message = "results/small/provenance.json: no such file; `snakemake small --configfile docs/small.yaml` makes it"
    with pytest.raises(InputError, match=f"^{message}$"):
        build.take("small")
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "results/small/provenance.json").write_text('{"machine": "x86_64"}')
    build.take("small")
    assert build.provenance("small") == {"machine": "x86_64"}
    taken = tmp_path / "docs/results/small_grids.csv.gz"
    assert gzip.decompress(taken.read_bytes()) == b"grids.csv,x\n1,2.5\n"
    assert taken.read_bytes()[4:8] == bytes(4)  # no time of day: the same rows give the same file
    assert len(list(taken.parent.iterdir())) == 3


def test_the_theory_is_taken_and_drawn_where_it_is_shown(build, tmp_path):
    (tmp_path / "results/theory").mkdir(parents=True)
    missing = "results/theory/lemma1_digits.csv: no such file; `snakemake theory` makes it"
    with pytest.raises(InputError, match=f"^{missing}$"):
        build.take("theory")
    for name in build.kept("theory").values():
        (tmp_path / "results" / name).write_text('{"machine": "x86_64"}\n')
    values = dict.fromkeys(("ball", "primal", "dual", "penalised"), 1)
    row = {"tail": "light", "radius": 0.1, "breaking": 1.0, "calibrated": 0.2, **values}
    table = pd.DataFrame([row, {**row, "radius": 1.0}]).assign(least_weight=0.5)
    tails = pd.concat([table.assign(tail=tail) for tail in ("light", "left", "right")])
    tails.to_csv(tmp_path / "results/theory/lemma3_digits.csv", index=False)
    build.take("theory")
    document = tmp_path / "docs/theory.md"
    document.write_text(
        "Before.\n\n<!-- theory penalty digits -->\n<!-- end -->\n\n<!-- provenance theory -->\n<!-- end -->"
    )
    text = build.texts()[document]
    assert text.startswith('Before.\n\n<!-- theory penalty digits -->\n\n<img src="figures/theory_penalty_digits.png"')
    assert "Lemma 3 on Digits, one sample of 500 losses" in text
    assert text.endswith("- machine: x86_64\n\n<!-- end -->")
    build.write_theory_figures()
    assert [path.name for path in (tmp_path / "docs/figures").iterdir()] == ["theory_penalty_digits.png"]


def test_a_study_is_taken_with_its_provenance(build, tmp_path):
    (tmp_path / "results/studies/coverage").mkdir(parents=True)
    files = {"coverage.csv": "n,coverage\n50,0.94\n", "coverage_provenance.json": '{"clean": true}'}
    for name, text in zip(["coverage.csv", "coverage/provenance.json"], files.values(), strict=True):
        with pytest.raises(
            InputError, match=f"^results/studies/{name}: no such file; `snakemake coverage_study` makes it$"
        ):
            build.take("coverage_study")
        (tmp_path / "results/studies" / name).write_text(text)
    build.take("coverage_study")
    assert {name: (tmp_path / "docs/results" / name).read_text() for name in files} == files
    missing = r"^results/studies/small_logs\.csv: no such file; `snakemake studies` makes it$"
    with pytest.raises(InputError, match=missing):
        build.take("studies")


def test_figures_of_a_page_are_drawn(build, tmp_path):
    build.write_figures("small")
    assert [path.name for path in (tmp_path / "docs/figures").iterdir()] == ["small_replay_count_yeast.png"]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document):
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    broken = []
    for link in links:
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert not broken
