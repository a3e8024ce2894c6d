"""The steps by hand: their help, a chain whose numbers are computed again here, and what wrong input gets."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from scipy import sparse

from drcrm import BanditLog, CostModel
from drcrm.__main__ import STEPS, main
from drcrm.cost_models.context_effects import context_effects
from drcrm.experiments.datasets.array_files import read_contexts, read_log
from drcrm.experiments.steps.cost_model import read_cost_model
from drcrm.files import read_npz, write_npz
from drcrm.reports.figures.experiment_figures import FIGURES
from drcrm.reports.tables.plan import Plan

SOURCE = Path(__file__).parents[2] / "src"
GRID = (0.001, 0.01, 0.1, 1.0)
SCORES = ("ips", "clipped_ips", "snips", "clipped_snips", "dr", "dr_bound", "snips_bound", "ls_bound")
LEARNED = ("cips", "kl_dro", "dr")
TILTED = {"estimate": "dr", "start": "model", "tilt": "auto", "context_effects": False}


def run(*arguments: object) -> int:
    """Run a step in this process; wrong arguments end in an exit, whose status counts as well."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def listing(folder: Path) -> dict[str, bytes]:
    """All files in a folder, hidden or not, with their content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sigmoid(u: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -u))


def make_contexts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Contexts whose labels depend on their features, with noise."""
    X = rng.normal(size=(n, 4))
    truth = np.array([[1.0, -1, 0], [0, 2, 1], [-1, 0, 1], [0.5, 0.5, 0]])
    return X, (X @ truth + rng.normal(size=(n, 3)) > 0).astype(np.uint8)


def chain(folder: Path, seed: int, unit: str = "row", counts: tuple[int, ...] = (4,), drawn: bool = False) -> Path:
    """Run all steps after fetch on a small random data set."""
    rng = np.random.default_rng(11)
    train, test = folder / "train.npz", folder / "test.npz"
    for path, n in ((train, 61), (test, 40)):
        write_npz(path, **dict(zip(("X", "labels"), make_contexts(rng, n), strict=True)))
    axes = "--dataset", "toy", "--seed", seed
    at = {name: folder / f"{name}.npz" for name in ("split", "logging", "skyline")}
    shares = "--logging-fraction", 0.2, "--heldout-fraction", 0.25
    assert run("split", "--train", train, "--split-unit", unit, *shares, *axes, "--output", at["split"]) == 0
    contexts = "--train", train, "--split", at["split"]
    assert run("log_crf", *contexts, "--logging-c", 0.5, "--output", at["logging"]) == 0
    assert run("skyline", *contexts, "--output", at["skyline"]) == 0
    for count in counts:
        here = folder / f"replay{count}"
        held = shares[2:] if unit == "row" else ()
        draw = "--policy", at["logging"], "--replay-count", count, "--split-unit", unit, *held, *axes
        assert run("replay", *contexts, *draw, "--output", here / "log.npz") == 0
        assert run("cost_model", "--log", here / "log.npz", "--output", here / "cost_model.npz") == 0
        learn = "fit", "--log", here / "log.npz", "--cost-model", here / "cost_model.npz", "--output"
        assert run(*learn, here / "cips.npz", "--estimator", "CIPS") == 0
        ball = "--estimator", "KLDRO", "--parameter", "radius", "--grid", *GRID
        assert run(*learn, here / "kl_dro.npz", *ball) == 0
        robust = "--estimator", "CIPS", "--options", json.dumps(TILTED), "--logging", at["logging"]
        assert run(*learn, here / "dr.npz", *robust) == 0
        policies = "--test", test, "--log", here / "log.npz", "--logging", at["logging"], "--skyline", at["skyline"]
        fits = "--fit", *(f"{name}={here / name}.npz" for name in LEARNED)
        loss = "--absent-label-score", "logged", "--replay-count", count, *axes
        chosen_by = "--selection", *SCORES
        outputs = "--output", here / "metrics.csv", "--output-grids", here / "grids.csv"
        assert run("evaluate", *policies, *learn[3:5], *fits, *chosen_by, *loss, *outputs) == 0
    for name in ("metrics.csv", "grids.csv"):
        assert run("collect", *(folder / f"replay{count}/{name}" for count in counts), "--output", folder / name) == 0
    if drawn:
        draw_results(folder, counts, seeds=seed + 1)
    return folder


def draw_results(folder: Path, counts: tuple[int, ...], seeds: int) -> None:
    """Run tables and figures on collected metrics."""
    metrics = folder / "metrics.csv"
    beside = {"grids": {"cips": [], "kl_dro": GRID, "dr": []}, "papers": {"toy": ["scene", "a toy"]}}
    of_tables = plan(selections=["snips", "ips"], seeds=seeds, counts=counts[-1:], **beside)
    assert run("tables", "--metrics", metrics, *of_tables, "--output", folder / "tables") == 0
    read = "--metrics", metrics, "--grids", folder / "grids.csv"
    for name in FIGURES:
        outputs = [folder / f"{name}.{kind}" for kind in ("pdf", "svg", "png")]
        drawn = plan(selections=["snips", "ips"], seeds=seeds, counts=counts)
        assert run("figures", name, *read, *drawn, "--output", *outputs) == 0
    outputs = [folder / f"overview.{kind}" for kind in ("pdf", "svg", "png")]
    of_all = plan(selections=["snips"], seeds=seeds, counts=counts[-1:])
    assert run("overview", "--metrics", metrics, *of_all, "--output", *outputs) == 0


def plan(**given) -> tuple[str, str]:
    """The option with a plan of the toy's headline selection, one seed, replay count 4, or as it is given."""
    usual = {"datasets": ["toy"], "selections": ["ips"], "seeds": 1, "counts": [4], "translations": {"toy": [1, 3]}}
    return "--plan", Plan(**{**usual, "protocol": PROTOCOL, **given}).json()


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """One chain, which tests read and never write to."""
    return chain(tmp_path_factory.mktemp("toy"), seed=0, counts=(1, 4), drawn=True)


@pytest.fixture(scope="module")
def metrics(toy) -> pd.DataFrame:
    return pd.read_csv(toy / "metrics.csv")


PROTOCOL = {"split_unit": "row", "logging_c": 0.5, "absent_label_score": "logged"}
PROTOCOL |= {"variance_penalty_scale": "calibrated"}
LOG = ["X", "Y", "propensity", "cost", "context", "train", "heldout"]
FIT = ["ridge", "step", "grid", "coef", "objective", "iterations", "converged", "scores", "chosen", "tilt"]


class TestHelp:
    @pytest.mark.parametrize("step", STEPS)
    def test_says_what_is_read_and_written(self, step, capsys):
        assert run(step, "--help") == 0
        out = capsys.readouterr().out
        assert out.startswith(f"usage: drcrm {step} ")
        reads, writes = out.split("\nReads ", 1)[1].split("\nWrites ", 1)
        assert "csv" in reads or "--" in reads
        assert ("nothing" if step == "check" else "--output") in writes.split("\n\n")[0]

    def test_lists_the_steps_in_order(self, capsys):
        assert run("--help") == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [line[0] for line in lines if line and line[0] in STEPS] == list(STEPS)

    def test_as_a_command(self):
        """The exit status and the message reach the shell."""
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        command = [sys.executable, "-m", "drcrm", "collect", "nothing.csv", "--output", "out.csv"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "drcrm collect: nothing.csv: no such file\n"

    def test_a_fit_imports_only_what_it_needs(self):
        heavy = ["pandas", "matplotlib", "statsmodels", "sklearn", "sklearn_crfsuite", "pycrfsuite", "pooch"]
        code = f"import sys, drcrm.experiments.steps.fit; print([name for name in {heavy} if name in sys.modules])"
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


@pytest.fixture
def repository(tmp_path) -> Path:
    """A git repository with one commit."""
    if not shutil.which("git"):
        pytest.skip("git is needed")
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "code.py").write_text("")
    me = "-c", "user.name=me", "-c", "user.email=me@localhost"
    for command in (["init"], ["add", "."], [*me, "commit", "--message", "first"]):
        subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True)
    return folder


class TestProvenance:
    CONFIG: ClassVar = {"experiment": {"seeds": 2, "name": "ε"}, "datasets": {"toy": {"labels": 3}}, "algorithms": {}}

    @staticmethod
    def noted(project: Path, config: Mapping = CONFIG) -> dict:
        path = project.parent / "provenance.json"
        options = "--project", project, "--config", json.dumps(config), "--output", path
        assert run("provenance", *options) == 0
        text = path.read_bytes()
        assert run("provenance", *options) == 0
        assert path.read_bytes() == text
        assert str(project).encode() not in text
        found = json.loads(text)
        assert text.decode() == json.dumps(found, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
        return found

    def test_says_the_commit_and_whether_something_changed_since(self, repository):
        head = (repository / ".git/refs/heads").glob("*")
        found = self.noted(repository)
        assert (found["commit"], found["clean"]) == (next(head).read_text().strip(), True)
        for change in ({"code.py": "1"}, {"code.py": "", "more.py": ""}):
            for name, text in change.items():
                (repository / name).write_text(text)
            assert self.noted(repository) == {**found, "clean": False}

    def test_knows_no_commit_without_a_repository_of_its_own(self, repository, monkeypatch):
        inner = repository / "inner"
        inner.mkdir()
        found = self.noted(inner)
        assert (found["commit"], found["clean"]) == (None, None)
        monkeypatch.setenv("PATH", "")
        assert self.noted(repository) == found

    def test_knows_the_commit_of_an_archive(self, repository):
        shutil.copy(Path(__file__).parents[2] / ".git_archival.txt", repository)
        shutil.copy(Path(__file__).parents[2] / ".gitattributes", repository)
        me = "-c", "user.name=me", "-c", "user.email=me@localhost"
        for command in (["add", "."], [*me, "commit", "--message", "second"]):
            subprocess.run(["git", "-C", repository, *command], check=True, capture_output=True)
        archive = repository.parent / "archive.tar"
        subprocess.run(["git", "-C", repository, "archive", "--output", archive, "HEAD"], check=True)
        shutil.unpack_archive(archive, repository.parent / "unpacked")
        commit = self.noted(repository)["commit"]
        found = self.noted(repository.parent / "unpacked")
        assert (found["commit"], found["clean"]) == (commit, None)
        shutil.rmtree(repository / ".git")
        assert self.noted(repository)["commit"] is None

    def test_the_source_is_told_apart_by_names_and_contents(self, tmp_path):
        project = tmp_path / "project"
        (project / "src/drcrm").mkdir(parents=True)
        assert self.noted(project)["source"] is None
        digests = set()
        for name, text in {"a.py": "1", "b.py": "1", "c.yaml": "2"}.items():
            (project / "src/drcrm" / name).write_text(text)
            digests.add(self.noted(project)["source"])
        (project / "src/drcrm/a.py").rename(project / "src/drcrm/z.py")
        digests.add(self.noted(project)["source"])
        assert len(digests) == 4
        (project / "src/drcrm/z.pyc").write_text("")
        assert self.noted(project)["source"] in digests

    def test_digest_is_of_the_configuration_whatever_its_order(self, tmp_path):
        found = self.noted(tmp_path)
        assert found["options"] == self.CONFIG["experiment"]
        assert self.noted(tmp_path, dict(reversed(self.CONFIG.items()))) == found
        for kind in self.CONFIG:
            other = self.noted(tmp_path, {**self.CONFIG, kind: {"changed": 1}})
            assert other["config"] != found["config"]
            assert (other["options"] != found["options"]) == (kind == "experiment")

    def test_says_what_computed(self, tmp_path):
        found = self.noted(tmp_path)
        assert found["versions"]["scipy"] == scipy.__version__
        assert found["versions"]["python"] == platform.python_version()
        assert set(found) == {"commit", "clean", "source", "versions", "config", "options", "blas", "machine"}
        assert None not in found["versions"].values()
        assert all(set(library) == {"name", "version", "architecture"} for library in found["blas"])

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ("{", "drcrm provenance: argument --config: is not JSON: Expecting property name"),
            ("[1]", "drcrm provenance: argument --config: '[1]' is not a JSON object"),
            ('{"experiment": {}}', "drcrm provenance: --config has no algorithms, datasets"),
        ],
    )
    def test_wrong_config(self, tmp_path, capsys, config, message):
        options = "--project", tmp_path, "--config", config
        assert fails(capsys, tmp_path / "provenance.json", "provenance", *options).startswith(message)


class TestChain:
    @pytest.mark.parametrize("unit", ["row", "context"])
    def test_split(self, toy, tmp_path, unit):
        options = "--logging-fraction", 0.2, "--heldout-fraction", 0.25, "--dataset", "toy", "--seed", 3
        path = tmp_path / "split.npz"
        assert run("split", "--train", toy / "train.npz", "--split-unit", unit, *options, "--output", path) == 0
        split = read_npz(path, ["logging", "train", "heldout"])
        assert len(split["heldout"]) == math.ceil(0.25 * 61)
        assert sorted([*split["train"], *split["heldout"]]) == list(range(61))
        candidates = 61 if unit == "row" else len(split["train"])
        assert len(set(split["logging"])) == math.ceil(0.2 * candidates)
        if unit == "context":
            assert set(split["logging"]) <= set(split["train"])

    def test_logging_policy_is_regularised_logistic_regression(self, toy):
        """Its gradient at the optimum, Xᵀ(σ(Xθ) − y) + θ/C, is zero up to the 6 decimals of CRFsuite's weights."""
        X, labels = read_contexts(toy / "train.npz")
        rows = read_npz(toy / "split.npz", ["logging"])["logging"]
        logging = read_npz(toy / "logging.npz", ["coef", "absent"])
        assert not logging["absent"].any()
        X, labels, coef = X[rows], labels[rows], logging["coef"]
        np.testing.assert_allclose(X.T @ (sigmoid(X @ coef) - labels) + coef / 0.5, 0, atol=2e-4)

    def test_log(self, toy):
        X, labels = read_contexts(toy / "train.npz")
        coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
        log = read_npz(toy / "replay4/log.npz", LOG)
        np.testing.assert_array_equal(log["X"], X)
        marginals, Y = sigmoid(X @ coef)[log["context"]], log["Y"]
        np.testing.assert_allclose(log["propensity"], np.where(Y == 1, marginals, 1 - marginals).prod(axis=1))
        np.testing.assert_array_equal(log["cost"], (labels[log["context"]] != Y).sum(axis=1) - 3.0)
        count = log["train"] + log["heldout"]
        np.testing.assert_array_equal(np.bincount(log["context"], count), 4)
        assert log["heldout"].sum() == math.ceil(0.25 * 61 * 4)
        rows = {(context, *action) for context, action in zip(log["context"].tolist(), Y.tolist(), strict=True)}
        assert len(rows) == len(Y) < 61 * 4

    def test_fewer_passes_are_a_prefix(self, toy):
        """Every row of one pass is in the log of four, where it occurs at least as often."""

        def counts(path):
            log = read_npz(path, LOG)
            keys = zip(log["context"].tolist(), map(tuple, log["Y"].tolist()), strict=True)
            return dict(zip(keys, log["train"] + log["heldout"], strict=True))

        one, four = counts(toy / "replay1/log.npz"), counts(toy / "replay4/log.npz")
        assert sum(one.values()) == 61
        assert all(four[key] >= count for key, count in one.items())

    def test_contexts_are_held_out_whole(self, tmp_path):
        chain(tmp_path, seed=0, unit="context")
        log = read_npz(tmp_path / "replay4/log.npz", LOG)
        split = read_npz(tmp_path / "split.npz", ["train", "heldout"])
        for part in ("train", "heldout"):
            np.testing.assert_array_equal(np.unique(log["context"][log[part] > 0]), split[part])
            assert log[part].sum() == 4 * len(split[part])

    def test_fits_and_their_scores(self, toy):
        log, fits = read_npz(toy / "replay4/log.npz", LOG), read_npz(toy / "replay4/kl_dro.npz", FIT)
        np.testing.assert_array_equal(fits["grid"], GRID)
        propensity = np.sort(np.repeat(log["propensity"], log["train"]))
        last = len(propensity) - 1
        clip = max(propensity[9 * last // 10] / propensity[math.ceil(last / 10)], math.e)
        assert fits["converged"].all()

        def weights(coef):
            marginals = sigmoid(log["X"] @ coef)[log["context"]]
            return np.where(log["Y"] == 1, marginals, 1 - marginals).prod(axis=1) / log["propensity"]

        n, cost = log["heldout"], log["cost"]
        for coef, scores in zip(fits["coef"], fits["scores"], strict=True):
            clipped = np.minimum(weights(coef), clip)
            ips, clipped_ips = [n * w @ cost for w in (weights(coef), clipped)]
            expected = ips / n.sum(), clipped_ips / n.sum(), ips / (n @ weights(coef)), clipped_ips / (n @ clipped)
            np.testing.assert_allclose(scores[:4], expected)
        np.testing.assert_array_equal(fits["chosen"], fits["scores"].argmin(axis=0))
        for coef, radius, objective in zip(fits["coef"], GRID, fits["objective"], strict=True):
            gammas = np.geomspace(0.01, 100, 4001)[:, None]  # a fine grid over the dual bounds it from above, closely
            z = np.minimum(weights(coef), clip) * cost
            share = log["train"] / log["train"].sum()
            dual = gammas[:, 0] * radius + gammas[:, 0] * np.log(np.exp((z - z.max()) / gammas) @ share) + z.max()
            assert dual.min() == pytest.approx(objective, rel=1e-5)

    @pytest.mark.parametrize(
        ("ball", "options", "curvature"),
        [("KLDRO", {}, 1), ("Chi2DRO", {}, 2), ("PhiDRO", {"divergence": "squared_hellinger"}, 0.5)],
    )
    def test_a_calibrated_ball_needs_no_grid(self, toy, tmp_path, ball, options, curvature):
        """Its radius is φ''(1) z²/(2n), n the rows of the training part."""
        log, fits = toy / "replay4/log.npz", {}
        radius = curvature * 1.6448536269514722**2 / (2 * read_npz(log, LOG)["train"].sum())
        for name, given, grid in (
            ("auto", {"radius": "auto"}, ()),
            ("given", {}, ("--parameter", "radius", "--grid", float(radius))),
        ):
            learn = "fit", "--log", log, "--estimator", ball, "--options", json.dumps({**options, **given})
            assert run(*learn, *grid, "--output", tmp_path / f"{name}.npz") == 0
            fits[name] = read_npz(tmp_path / f"{name}.npz", FIT)
        np.testing.assert_allclose(fits["auto"]["coef"], fits["given"]["coef"], rtol=1e-12)
        assert np.isnan(fits["auto"]["grid"]).all()

    def test_the_cost_model_is_ridge_regression(self, toy):
        """The gradient of the training rows' mean squared error + λ Σ s² B² is zero; the intercept has no penalty."""
        log, model = (
            read_npz(toy / "replay4/log.npz", LOG),
            read_npz(toy / "replay4/cost_model.npz", ["coef", "intercept", "penalty"]),
        )
        X, Y, n = log["X"][log["context"]], np.column_stack([log["Y"], np.ones(len(log["Y"]))]), log["train"]
        residual = (X @ model["coef"] * Y).sum(axis=1) - log["cost"]
        penalised = model["penalty"] * abs(X[n > 0]).max(axis=0)[:, None] ** 2 * model["coef"]
        penalised[-1, -1] = 0
        gradient = X.T @ ((n * residual)[:, None] * Y) / n.sum() + penalised
        assert model["coef"].shape == (5, 4)
        np.testing.assert_allclose(gradient, 0, atol=1e-9)
        assert 1e-4 <= model["penalty"] <= 0.1
        assert not model["intercept"].any()

    def test_the_cost_model_has_the_variances_of_context_effects(self, toy, tmp_path):
        """A fit with them is the fit that estimates them."""
        path, log = toy / "replay4/cost_model.npz", toy / "replay4/log.npz"
        arrays, (train, _) = read_npz(path, ["coef", "intercept", "covariance", "noise"]), read_log(log)
        model = read_cost_model(path)
        estimated = context_effects(train, model.action_effects(train.X, train.actions))
        np.testing.assert_allclose(model.variances_[0], estimated.covariance, rtol=1e-12)
        assert model.variances_[1] == pytest.approx(estimated.noise, rel=1e-12)
        write_npz(tmp_path / "plain.npz", coef=arrays["coef"], intercept=arrays["intercept"])
        options = "--log", log, "--estimator", "CIPS", "--options", '{"estimate": "dr"}'
        for name, given in {"known": path, "estimated": tmp_path / "plain.npz"}.items():
            assert run("fit", *options, "--cost-model", given, "--output", tmp_path / f"{name}.npz") == 0
        known, found = (read_npz(tmp_path / f"{name}.npz", FIT)["coef"] for name in ("known", "estimated"))
        np.testing.assert_allclose(known, found, rtol=1e-6, atol=1e-6)

    def test_the_cost_model_of_a_log_without_a_constant_has_an_intercept(self, toy, tmp_path):
        log = read_npz(toy / "replay4/log.npz", LOG)
        write_npz(tmp_path / "log.npz", **log | {"X": log["X"][:, :-1]})
        assert run("cost_model", "--log", tmp_path / "log.npz", "--output", tmp_path / "cost_model.npz") == 0
        rows = (log[each] for each in ("cost", "context", "train"))
        train = BanditLog(log["X"][:, :-1], log["Y"], np.ones(len(log["Y"])), *rows)
        found, expected = read_cost_model(tmp_path / "cost_model.npz"), CostModel().fit_log(train)
        assert found.intercept_ == pytest.approx(expected.intercept_, rel=1e-12)
        assert found.intercept_[-1] != 0
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)

    def test_a_doubly_robust_fit_starts_from_the_tilted_logging_policy(self, toy):
        """Its tilt is the largest, more than a third of the rows being left; objective and scores by hand."""
        log, fits = read_npz(toy / "replay4/log.npz", LOG), read_npz(toy / "replay4/dr.npz", FIT)
        model = read_npz(toy / "replay4/cost_model.npz", ["coef"])["coef"]
        effects = log["X"] @ model
        modelled = (effects[log["context"]] * np.column_stack([log["Y"], np.ones(len(log["Y"]))])).sum(axis=1)

        def weights(coef):
            marginals = sigmoid(log["X"] @ coef)[log["context"]]
            return np.where(log["Y"] == 1, marginals, 1 - marginals).prod(axis=1) / log["propensity"]

        def doubly_robust(coef, n, clip):
            expected = (sigmoid(log["X"] @ coef) * effects[:, :-1]).sum(axis=1) + effects[:, -1]
            z = expected[log["context"]] + np.minimum(weights(coef), clip) * (log["cost"] - modelled)
            return n @ z / n.sum()

        start = read_npz(toy / "logging.npz", ["coef"])["coef"] - fits["tilt"][0] * model[:, :-1]
        n, held = log["train"], log["heldout"]
        size = (n @ weights(start)) ** 2 / (n @ weights(start) ** 2)
        deviation = np.sqrt(np.cov(log["cost"], fweights=n, ddof=0))
        assert fits["tilt"][0] == pytest.approx(10 / deviation)
        assert size > n.sum() / 3
        propensity = np.sort(np.repeat(log["propensity"], n))
        last = len(propensity) - 1
        clip = max(propensity[9 * last // 10] / propensity[math.ceil(last / 10)], math.e)
        [coef], [objective], [scores] = fits["coef"], fits["objective"], fits["scores"]
        assert objective == pytest.approx(doubly_robust(coef, n, clip), rel=1e-9)
        assert objective < doubly_robust(start, n, clip) - 1e-6
        assert scores[SCORES.index("dr")] == pytest.approx(doubly_robust(coef, held, clip), rel=1e-9)
        assert np.isfinite(scores).all()

    def test_the_tilt_is_in_the_metrics(self, toy, metrics):
        for count in (1, 4):
            at = metrics[metrics["replay_count"] == count]
            [tilt] = read_npz(toy / f"replay{count}/dr.npz", FIT)["tilt"]
            assert set(at.loc[at["algorithm"] == "dr", "tilt"]) == {tilt}
        assert metrics.loc[metrics["algorithm"] != "dr", "tilt"].isna().all()

    def test_losses(self, toy, metrics):
        X, labels = read_contexts(toy / "test.npz")

        def losses(coef):
            marginals = sigmoid(X @ coef)
            expected = np.where(labels == 1, 1 - marginals, marginals).sum(axis=1).mean()
            return expected, ((marginals >= 0.5) != labels).sum(axis=1).mean()

        seen = set()
        for row in metrics.itertuples():
            folder = toy / f"replay{row.replay_count}"
            if row.algorithm in ("logging", "skyline"):
                coef = read_npz(toy / f"{row.algorithm}.npz", ["coef"])["coef"]
                assert math.isnan(row.score)
            else:
                fits = read_npz(folder / f"{row.algorithm}.npz", FIT)
                column = SCORES.index(row.selection)
                best = fits["scores"][:, column].argmin()
                coef = fits["coef"][best]
                assert row.score == fits["scores"][best, column]
                assert (row.iterations, row.converged) == (fits["iterations"][best], fits["converged"][best])
                np.testing.assert_equal(row.hyperparameter, fits["grid"][best])
            assert (row.expected_loss, row.greedy_loss) == pytest.approx(losses(coef))
            seen.add((row.replay_count, row.algorithm, row.selection))
        algorithms = "logging", *LEARNED, "skyline"
        assert seen == {(count, a, s) for count in (1, 4) for a in algorithms for s in SCORES}
        assert len(metrics) == len(seen)

    @pytest.mark.parametrize("estimate", ["dr", "snips"])
    def test_certificates(self, toy, metrics, estimate, tmp_path):
        """With a cost model the mean of the z̄, and the KL ball of them; contexts by their means, z = m + w (c − ĉ).

        Without one the ratio r, and by bisection the v at which the KL ball of w̄ (c̄ − v) is 0.
        """
        if estimate == "snips":
            policies = (
                "--logging",
                toy / "logging.npz",
                "--skyline",
                toy / "skyline.npz",
                "--log",
                toy / "replay4/log.npz",
            )
            fits = "--fit", *(f"{name}={toy / 'replay4' / name}.npz" for name in LEARNED)
            axes = "--replay-count", 4, "--dataset", "toy", "--seed", 0, "--absent-label-score", "logged"
            chosen_by = "--selection", "dr_bound", "--output", tmp_path / "metrics.csv"
            assert run("evaluate", "--test", toy / "test.npz", *policies, *fits, *axes, *chosen_by) == 0
            metrics = pd.read_csv(tmp_path / "metrics.csv")
        assert list(metrics.columns[-3:]) == ["estimate", "bound", "effective_size"]
        certificate = metrics[metrics.columns[-3:]]
        assert certificate[metrics["algorithm"].isin(["logging", "skyline"])].isna().all(axis=None)
        assert certificate[metrics["algorithm"].isin(LEARNED)].notna().all(axis=None)
        log = read_npz(toy / "replay4/log.npz", LOG)
        n, cost, model = log["heldout"], log["cost"], read_npz(toy / "replay4/cost_model.npz", ["coef"])["coef"]
        held = [(log["context"] == each) & (n > 0) for each in np.unique(log["context"][n > 0])]
        effects = (log["X"] @ model)[log["context"]]
        modelled = (log["Y"] * effects[:, :-1]).sum(axis=1) + effects[:, -1]
        of_run = metrics[metrics["replay_count"] == 4].set_index(["algorithm", "selection"])
        for algorithm, confidence in (("kl_dro", 1 - 0.05 / len(GRID)), ("cips", 0.95)):
            row, fits = of_run.loc[(algorithm, "dr_bound")], read_npz(toy / f"replay4/{algorithm}.npz", FIT)
            coef = fits["coef"][fits["scores"][:, SCORES.index("dr_bound")].argmin()]
            marginals = sigmoid(log["X"] @ coef)[log["context"]]
            weight = np.where(log["Y"] == 1, marginals, 1 - marginals).prod(axis=1) / log["propensity"]
            assert row["effective_size"] == pytest.approx((n @ weight) ** 2 / (n @ weight**2))
            expected = (marginals * effects[:, :-1]).sum(axis=1) + effects[:, -1]
            of_rows = {"snips": weight * cost, "dr": expected + weight * (cost - modelled)}[estimate]
            spent, mass = (np.array([n[k] @ z[k] / n[k].sum() for k in held]) for z in (of_rows, weight))
            radius = scipy.stats.norm.ppf(confidence) ** 2 / (2 * len(held))

            def ball(z, radius=radius):
                def dual(log_gamma):
                    gamma = np.exp(log_gamma)
                    return gamma * (radius + scipy.special.logsumexp(z / gamma, b=1 / len(z)))

                return scipy.optimize.minimize_scalar(dual, bounds=(-9, 9), options={"xatol": 1e-9}).fun

            if estimate == "snips":
                value = spent.sum() / mass.sum()
                bound = scipy.optimize.brentq(lambda v, spent=spent, mass=mass: ball(spent - v * mass), -3, 0)
            else:
                value, bound = spent.mean(), ball(spent)
            assert row["estimate"] == pytest.approx(3 + value)
            assert row["bound"] == pytest.approx(3 + bound, abs=1e-6)
            assert row["estimate"] < row["bound"] <= 3

    def test_certificates_know_the_logging_policy(self, toy, tmp_path):
        """What π0 hardly takes counts 3, the loss of all labels: a sharper π0 in the file makes bounds higher."""
        coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
        bounds = []
        for sharpness in (1, 30):
            write_npz(tmp_path / "logging.npz", coef=sharpness * coef)
            given = "--log", toy / "replay4/log.npz", "--fit", f"cips={toy / 'replay4/cips.npz'}"
            policies = "--logging", tmp_path / "logging.npz", "--skyline", toy / "skyline.npz"
            axes = "--replay-count", 4, "--dataset", "toy", "--seed", 0, "--absent-label-score", "logged"
            chosen_by = "--selection", "dr_bound", "--output", tmp_path / "metrics.csv"
            assert run("evaluate", "--test", toy / "test.npz", *policies, *given, *axes, *chosen_by) == 0
            bounds.append(pd.read_csv(tmp_path / "metrics.csv").set_index("algorithm").loc["cips", "bound"])
        assert bounds[0] + 0.1 < bounds[1] <= 3

    @pytest.mark.parametrize("fault", ["one context", "no weight"])
    def test_no_certificate_is_an_empty_cell(self, toy, tmp_path, fault):
        log = read_npz(toy / "replay4/log.npz", LOG)
        if fault == "one context":
            [context] = log["context"][log["heldout"] > 0][:1]
            log["heldout"] = log["heldout"] * (log["context"] == context)
        else:
            log["X"], log["Y"] = np.ones_like(log["X"]), np.ones_like(log["Y"])
        write_npz(tmp_path / "log.npz", **log)
        fits = read_npz(toy / "replay4/cips.npz", FIT)
        if fault == "no weight":
            fits["coef"] = np.full_like(fits["coef"], -500)
        write_npz(tmp_path / "cips.npz", **fits)
        policies = "--logging", toy / "logging.npz", "--skyline", toy / "skyline.npz", "--absent-label-score", "logged"
        read = "--test", toy / "test.npz", "--log", tmp_path / "log.npz", "--fit", f"cips={tmp_path / 'cips.npz'}"
        axes = "--selection", "ips", "--replay-count", 4, "--dataset", "toy", "--seed", 0
        assert run("evaluate", *read, *policies, *axes, "--output", tmp_path / "metrics.csv") == 0
        assert (tmp_path / "metrics.csv").read_text().splitlines()[2].endswith(",,,")
        table = pd.read_csv(tmp_path / "metrics.csv").set_index("algorithm")
        assert table.loc["cips", ["estimate", "bound", "effective_size"]].isna().all()
        assert table["expected_loss"].notna().all()

    def test_an_absent_label_counts_as_logged_or_half(self, toy, tmp_path):
        """π0 logs such a label as 0: its loss is how often it is 1, or one half."""
        coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
        coef[:, 1] = [*np.zeros(len(coef) - 1), -1000]
        logging = tmp_path / "logging.npz"
        write_npz(logging, coef=coef, absent=np.array([False, True, False]))
        X, labels = read_contexts(toy / "test.npz")
        marginals = sigmoid(X @ coef[:, [0, 2]])
        others = np.where(labels[:, [0, 2]] == 1, 1 - marginals, marginals).sum(axis=1).mean()
        for score, expected in {"logged": labels[:, 1].mean(), "half": 0.5}.items():
            policies = "--test", toy / "test.npz", "--logging", logging, "--skyline", toy / "skyline.npz"
            policies += "--log", toy / "replay4/log.npz"
            fit = "--fit", f"cips={toy / 'replay4/cips.npz'}", "--selection", "ips", "--absent-label-score", score
            axes = "--replay-count", 4, "--dataset", "toy", "--seed", 0
            assert run("evaluate", *policies, *fit, *axes, "--output", tmp_path / "metrics.csv") == 0
            table = pd.read_csv(tmp_path / "metrics.csv").set_index("algorithm")
            assert table.loc["logging", "expected_loss"] == pytest.approx(others + expected)

    def test_collect_keeps_every_digit(self, toy):
        parts = [(toy / f"replay{count}/metrics.csv").read_text().splitlines() for count in (1, 4)]
        assert (toy / "metrics.csv").read_text().splitlines() == parts[0] + parts[1][1:]

    def test_tables(self, toy, metrics):
        table = pd.read_csv(toy / "tables/expected_loss.csv").set_index(["algorithm", "selection"])
        rows = metrics[metrics["replay_count"] == 4].set_index(["algorithm", "selection"])
        assert set(table.index) == {(a, s) for a in ("logging", *LEARNED, "skyline") for s in ("snips", "ips")}
        np.testing.assert_allclose(table["mean"], rows.loc[table.index, "expected_loss"])
        for selection in ("snips", "ips"):
            best = table.xs(selection, level="selection").loc[list(LEARNED), "mean"].idxmin()
            assert table.loc[(best, selection), "best"] == 1
        chosen = pd.read_csv(toy / "tables/hyperparameters.csv")
        chosen = chosen[chosen["times_chosen"] > 0].set_index(["algorithm", "selection"])["value"]
        for selection in ("snips", "ips"):
            assert chosen["kl_dro", selection] == rows.loc[("kl_dro", selection), "hyperparameter"]
        compared = pd.read_csv(toy / "tables/paper_comparison.csv")
        np.testing.assert_allclose(compared["difference"], compared["ours"] - compared["paper"])
        assert compared["differs"].str.startswith("a toy").all()
        np.testing.assert_allclose(
            compared["code_difference_in_errors"],
            (compared["ours"] - compared["code"])
            / np.hypot(compared["standard_error"], compared["code_standard_error"]),
        )

    def test_differences_have_the_data_sets_in_the_order_of_the_tables(self, metrics, tmp_path):
        """And those of the replay-count figure alone after them."""
        poem = metrics.replace({"algorithm": {"kl_dro": "poem"}})
        parts = [poem.assign(dataset=name) for name in ("a", "b", "c")]
        pd.concat(parts).to_csv(tmp_path / "metrics.csv", index=False)
        options = "--metrics", tmp_path / "metrics.csv", *plan(datasets=["c", "a"])
        assert run("tables", *options, "--output", tmp_path) == 0
        table = pd.read_csv(tmp_path / "differences_to_poem.csv")
        assert list(dict.fromkeys(zip(table["dataset"], table["replay_count"], strict=True))) == [
            (name, count) for name in ("c", "a", "b") for count in (1, 4)
        ]

    def test_pages_are_without_tables_that_would_be_empty(self, toy, tmp_path):
        """Beside the paper, and differences to POEM, which is not among these; grids only where they are given."""
        outputs = "--output", tmp_path / "tables", "--pages", tmp_path
        assert run("tables", "--metrics", toy / "metrics.csv", *plan(), *outputs) == 0
        losses = [f"{loss} Hamming loss{what}" for loss in ("Expected", "Greedy") for what in (" by IPS", " in detail")]
        assert sorted(path.stem for path in tmp_path.glob("*.html")) == [
            f"{number:02} {title}" for number, title in enumerate(losses, start=1)
        ]
        assert all(path.read_text(encoding="utf-8").count("<table>") == 1 for path in tmp_path.glob("*.html"))

    def test_figures(self, toy):
        """They are files of the named formats, without a date."""
        files = listing(toy)
        begins = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r\n"}
        for name in (*FIGURES, "overview"):
            for kind, begin in begins.items():
                assert files[f"{name}.{kind}"].startswith(begin)
            assert b"CreationDate" not in files[f"{name}.pdf"]
            assert b"dc:date" not in files[f"{name}.svg"]

    def test_the_same_seed_gives_the_same_files(self, toy, tmp_path):
        again = listing(chain(tmp_path, seed=0, counts=(1, 4), drawn=True))
        before = listing(toy)
        assert sorted(again) == sorted(before)
        assert [name for name in before if again[name] != before[name]] == []

    def test_another_seed_draws_anew(self, toy, tmp_path):
        again, before = listing(chain(tmp_path, seed=1)), listing(toy)
        drawn = ["split.npz", "logging.npz", "replay4/metrics.csv"]
        drawn += [f"replay4/{name}.npz" for name in ("log", "cost_model", "kl_dro", "dr")]
        assert all(again[name] != before[name] for name in drawn)
        assert all(again[name] == before[name] for name in ("train.npz", "test.npz"))


def fails(capsys, output: Path, *arguments: object) -> str:
    """Run what must fail; its one line on stderr. Nothing is written."""
    before = sorted(output.parent.rglob("*"))
    assert run(*arguments, "--output", output) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n")
    assert captured.err.count("\n") == 1
    assert sorted(output.parent.rglob("*")) == before
    return captured.err[:-1]


def split_options(**changed: object) -> list[object]:
    """The options of split, some of them changed."""
    shares = {"--logging-fraction": 0.1, "--heldout-fraction": 0.25}
    right = {"--split-unit": "row", **shares, "--dataset": "t", "--seed": 0}
    return [part for pair in (right | changed).items() for part in pair]


def with_nan(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[2, 1] = np.nan
    return X


def with_first(values: np.ndarray, first: float) -> np.ndarray:
    return np.array([first, *values[1:]])


LOG_FAULTS = {
    "zero propensity": (lambda log: {"propensity": with_first(log["propensity"], 0)}, "propensity is 0.0 in row 0"),
    "large propensity": (lambda log: {"propensity": with_first(log["propensity"], 1.5)}, "propensity is 1.5 in row 0"),
    "NaN propensity": (lambda log: {"propensity": with_first(log["propensity"], np.nan)}, "expected a finite number"),
    "text propensity": (lambda log: {"propensity": log["propensity"].astype(str).astype("U3") + "x"}, "numbers"),
    "NaN feature": (lambda log: {"X": with_nan(log["X"])}, "X has nan in row 2, column 1, expected finite features"),
    "NaN in CSR": (
        lambda log: {"X": sparse.csr_array(with_nan(log["X"]))},
        "X has nan in row 2, column 1, expected finite features",
    ),
    "no contexts": (lambda log: {"X": log["X"][:0]}, "expected (rows, features) with at least one of each"),
    "no rows": (lambda log: {name: log[name][:0] for name in LOG[1:]}, "the log is empty"),
    "nothing to train on": (lambda log: {"train": 0 * log["train"]}, "the counts of all"),
    "action 2": (lambda log: {"Y": log["Y"] * 2}, "expected 0 or 1"),
    "infinite cost": (lambda log: {"cost": with_first(log["cost"], np.inf)}, "cost is inf in row 0, expected a finite"),
    "context 61": (lambda log: {"context": with_first(log["context"], 61)}, "expected a row of X, 0 to 60"),
    "negative count": (
        lambda log: {"train": with_first(log["train"], -1)},
        "count is -1 in row 0, expected 0 or more",
    ),
    "short column": (lambda log: {"cost": log["cost"][1:]}, "cost has shape"),
}


class TestBadFiles:
    FIT = "--estimator", "KLDRO", "--parameter", "radius", "--grid", 0.1

    @pytest.mark.parametrize("name", LOG_FAULTS)
    def test_a_log_out_of_range(self, toy, tmp_path, capsys, name):
        change, message = LOG_FAULTS[name]
        log = read_npz(toy / "replay4/log.npz", LOG)
        write_npz(tmp_path / "log.npz", **(log | change(log)))
        error = fails(capsys, tmp_path / "fit.npz", "fit", "--log", tmp_path / "log.npz", *self.FIT)
        assert error.startswith(f"drcrm fit: {tmp_path / 'log.npz'}: ")
        assert message in error

    def test_costs_that_give_no_unit_for_poem(self, toy, tmp_path, capsys):
        log = read_npz(toy / "replay4/log.npz", LOG)
        write_npz(tmp_path / "log.npz", **(log | {"cost": np.ones(len(log["cost"]))}))
        options = "--estimator", "POEM", "--parameter", "variance_penalty", "--grid", 1
        error = fails(capsys, tmp_path / "fit.npz", "fit", "--log", tmp_path / "log.npz", *options)
        assert error.startswith(f"drcrm fit: {tmp_path / 'log.npz'}: POEM's penalty cannot be calibrated on costs with")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda coef: coef[:, 1:], "the cost model's coef_ has shape (5, 3), expected (5, 4)"),
            (lambda coef: coef[1:], "the cost model's coef_ has shape (4, 4), expected (5, 4)"),
            (lambda coef: coef[0], "expected (rows, features) with at least one of each"),
            (lambda coef: with_nan(coef), "coef has nan in row 2, column 1, expected finite features"),
        ],
    )
    def test_a_cost_model_of_another_shape(self, toy, tmp_path, capsys, change, message):
        path = tmp_path / "cost_model.npz"
        write_npz(path, coef=change(read_npz(toy / "replay4/cost_model.npz", ["coef"])["coef"]))
        for options in ({}, {"estimate": "dr"}, {"estimate": "dm", "start": "model"}):
            read = "--log", toy / "replay4/log.npz", "--cost-model", path, "--options", json.dumps(options)
            error = fails(capsys, tmp_path / "fit.npz", "fit", *read, "--estimator", "CIPS")
            assert error.startswith("drcrm fit: ")
            assert error.endswith(message)

    def test_a_logging_policy_of_another_shape(self, toy, tmp_path, capsys):
        path = tmp_path / "logging.npz"
        write_npz(path, coef=np.zeros((5, 2)))
        read = "--log", toy / "replay4/log.npz", "--logging", path, "--options", '{"start": "logging"}'
        error = fails(capsys, tmp_path / "fit.npz", "fit", *read, "--estimator", "CIPS")
        assert error == "drcrm fit: the logging policy's coef has shape (5, 2), expected (5, 3), as the log has"

    def broken_npz(self, fault: str, whole: Path, broken: Path) -> None:
        """Write a file that is not what the one of a step should be."""
        content = whole.read_bytes()
        if fault == "truncated":
            broken.write_bytes(content[: len(content) // 2])
        elif fault == "empty":
            broken.write_bytes(b"")
        elif fault == "text":
            broken.write_text("dataset,seed\n")
        elif fault == "damaged":
            with zipfile.ZipFile(whole) as archive:
                at = archive.getinfo(archive.namelist()[0]).header_offset
            broken.write_bytes(content[: at + 200] + b"\xff" * 100 + content[at + 300 :])
        elif fault == "one array":
            np.save(broken.with_suffix(".npy"), np.ones(3))
            broken.with_suffix(".npy").rename(broken)
        elif fault == "pickled":
            with np.load(whole) as archive:
                np.savez(broken, **{name: archive[name].astype(object) for name in archive})
        elif fault == "folder":
            broken.mkdir()

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("missing", "no such file"),
            ("truncated", "not a readable npz file (File is not a zip file)"),
            ("empty", "not a readable npz file (File is not a zip file)"),
            ("text", "not a readable npz file ("),
            ("damaged", "not a readable npz file ("),
            ("one array", "not a readable npz file ("),
            ("pickled", "not a readable npz file (Object arrays cannot be loaded when allow_pickle=False)"),
            ("folder", "not a readable npz file ("),
        ],
    )
    @pytest.mark.parametrize("step", ["split", "log_crf", "replay", "cost_model", "fit", "evaluate"])
    def test_a_file_that_is_no_npz(self, toy, tmp_path, capsys, step, fault, message):
        broken, output = tmp_path / "broken.npz", tmp_path / "out" / "out.npz"
        axes = "--dataset", "toy", "--seed", 0
        contexts = "--train", toy / "train.npz", "--split"
        unit = "--split-unit", "row", "--heldout-fraction", 0.25, *axes
        policies = "--logging", toy / "logging.npz", "--skyline", toy / "skyline.npz", "--fit", f"cips={broken}"
        policies += "--log", toy / "replay4/log.npz"
        scores = "--selection", "ips", "--absent-label-score", "half"
        whole, *arguments = {
            "split": ("train.npz", "--train", broken, "--logging-fraction", 0.1, *unit),
            "log_crf": ("split.npz", *contexts, broken, "--logging-c", 1),
            "replay": ("logging.npz", *contexts, toy / "split.npz", "--policy", broken, "--replay-count", 2, *unit),
            "cost_model": ("replay4/log.npz", "--log", broken),
            "fit": ("replay4/log.npz", "--log", broken, *self.FIT),
            "evaluate": (
                "replay4/cips.npz",
                *("--test", toy / "test.npz", *policies, *scores, "--replay-count", 4, *axes),
            ),
        }[step]
        self.broken_npz(fault, toy / whole, broken)
        output.parent.mkdir()
        error = fails(capsys, output, step, *arguments)
        assert error.startswith(f"drcrm {step}: {broken}: {message}")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (None, "drcrm evaluate: the following arguments are required: --log"),
            (lambda log: {"X": log["X"][:, 1:]}, "the log has 4 features and 3 labels, expected 5 and 3"),
            (lambda log: {"Y": log["Y"][:, 1:]}, "the log has 5 features and 2 labels, expected 5 and 3"),
        ],
    )
    def test_evaluate_wants_the_log(self, toy, tmp_path, capsys, change, message):
        read = "--test", toy / "test.npz", "--logging", toy / "logging.npz", "--skyline", toy / "skyline.npz"
        read += "--fit", f"cips={toy / 'replay4/cips.npz'}", "--selection", "ips", "--absent-label-score", "logged"
        axes = "--replay-count", 4, "--dataset", "toy", "--seed", 0
        if change:
            log, path = read_npz(toy / "replay4/log.npz", LOG), tmp_path / "log.npz"
            write_npz(path, **(log | change(log)))
            read += "--log", path
            message = f"drcrm evaluate: {path}: {message}"
        assert fails(capsys, tmp_path / "metrics.csv", "evaluate", *read, *axes) == message

    def test_evaluate_wants_a_cost_model_of_its_log(self, toy, tmp_path, capsys):
        read = "--test", toy / "test.npz", "--logging", toy / "logging.npz", "--skyline", toy / "skyline.npz"
        read += "--fit", f"cips={toy / 'replay4/cips.npz'}", "--selection", "ips", "--absent-label-score", "logged"
        read += "--replay-count", 4, "--dataset", "toy", "--seed", 0, "--log", toy / "replay4/log.npz"
        path = tmp_path / "cost_model.npz"
        write_npz(path, coef=np.ones((4, 4)))
        message = f"drcrm evaluate: {path}: the cost model's coef has shape (4, 4), expected (5, 4)"
        assert fails(capsys, tmp_path / "metrics.csv", "evaluate", *read, "--cost-model", path) == message

    def test_a_missing_array_is_named(self, toy, tmp_path, capsys):
        log = read_npz(toy / "replay4/log.npz", LOG)
        del log["propensity"]
        write_npz(tmp_path / "log.npz", **log)
        error = fails(capsys, tmp_path / "fit.npz", "fit", "--log", tmp_path / "log.npz", *self.FIT)
        assert error.startswith(
            f"drcrm fit: {tmp_path / 'log.npz'}: no array 'propensity', only ['X', 'Y', 'context', "
        )

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"X.indices": [0, 9]}, "not a readable npz file ("),
            ({"X.indptr": [0, 5, 2]}, "not a readable npz file ("),
            ({"X.data": [1.0, np.inf]}, "X has inf in row 1, column 1, expected finite features"),
            ({"labels": [[1]]}, "labels has 1 rows, expected 2"),
            ({"labels": [[1], [7]]}, "labels has 7 in row 1, label 0, expected 0 or 1"),
        ],
    )
    def test_sparse_contexts_out_of_range(self, tmp_path, capsys, parts: Mapping, message):
        right = {
            "X.data": [1.0, 2.0],
            "X.indices": [0, 1],
            "X.indptr": [0, 1, 2],
            "X.shape": [2, 3],
            "labels": [[1], [0]],
        }
        path = tmp_path / "train.npz"
        np.savez(path, **{name: np.asarray(value) for name, value in (right | parts).items()})
        error = fails(capsys, tmp_path / "split.npz", "split", "--train", path, *split_options())
        assert error.startswith(f"drcrm split: {path}: {message}")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "no such file"),
            (b"", "not a readable csv file (No columns to parse from file)"),
            (b"\xff\xfe\x00\x81", "not a readable csv file ("),
            (b"dataset,seed\ntoy,0\n", "no column 'replay_count', expected dataset, replay_count, seed, "),
        ],
    )
    @pytest.mark.parametrize("step", ["tables", "figures"])
    def test_metrics_that_are_none(self, tmp_path, capsys, step, content, message):
        path = tmp_path / "metrics.csv"
        if content is not None:
            path.write_bytes(content)
        figure = ["replay_count", "--grids", path] if step == "figures" else []
        error = fails(capsys, tmp_path / "figure.pdf", step, *figure, "--metrics", path, *plan())
        assert error.startswith(f"drcrm {step}: {path}: {message}")

    @pytest.mark.parametrize(
        ("dataset", "selection", "suffix", "message"),
        [
            ("top", "ips", ".pdf", "no runs of data set 'top' chosen by ips"),
            ("toy", "ips", ".docx", "the name of a figure must end in .pdf, .svg or .png"),
        ],
    )
    def test_figures_of_nothing(self, toy, tmp_path, capsys, dataset, selection, suffix, message):
        read = "--metrics", toy / "metrics.csv", "--grids", toy / "grids.csv"
        output = tmp_path / f"figure{suffix}"
        options = plan(datasets=[dataset], selections=[selection], counts=[1])
        assert message in fails(capsys, output, "figures", "replay_count", *read, *options)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"dataset": ["toy"], "seed": 1}, "not a plan (unknown: dataset, seed)"),
            ({"datasets": []}, "expected data sets, and seeds and counts from 1"),
            ({"seeds": 0}, "expected data sets, and seeds and counts from 1"),
            ({"seeds": "a"}, "not a plan ("),
            ({"selections": ["ip"]}, "selections are ['ip'], expected some of "),
            ({"datasets": ["top"]}, "no runs of data set 'top'"),
            ({}, "--plan has no translation of 'toy'"),
        ],
    )
    def test_a_plan_of_what_there_is_not(self, toy, tmp_path, capsys, given, message):
        usual = {"datasets": ["toy"], "selections": ["ips"], "seeds": 1, "counts": [4]}
        read = "--metrics", toy / "metrics.csv", "--grids", toy / "grids.csv"
        text = json.dumps(usual | given)
        assert message in fails(capsys, tmp_path / "figure.pdf", "figures", "grid", *read, "--plan", text)

    @pytest.mark.parametrize("text", ["{", "[]", "3", '{"datasets": ["toy"]}', "[" * 100_000])
    def test_a_plan_that_is_none(self, toy, tmp_path, capsys, text):
        read = "--metrics", toy / "metrics.csv", "--grids", toy / "grids.csv"
        error = fails(capsys, tmp_path / "figure.pdf", "figures", "grid", *read, "--plan", text)
        assert error.startswith("drcrm figures: argument --plan: not a plan (")

    def test_a_plan_of_tables_without_a_protocol(self, toy, tmp_path, capsys):
        given = plan(protocol={"split_unit": "row", "logging_c": 1.0})
        error = fails(capsys, tmp_path / "tables", "tables", "--metrics", toy / "metrics.csv", *given)
        assert error == "drcrm tables: --plan has no protocol's absent_label_score, variance_penalty_scale"

    def test_collect_wants_metrics(self, toy, tmp_path, capsys):
        other = tmp_path / "other.csv"
        with open(other, "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["dataset", "seed"], ["toy", 0]])
        error = fails(capsys, tmp_path / "metrics.csv", "collect", toy / "replay4/metrics.csv", other)
        assert error.startswith(f"drcrm collect: {other}: columns ['dataset', 'seed'], expected ['dataset', ")


class TestBadArguments:
    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("--logging-fraction", 0, "argument --logging-fraction: 0 is not between 0 and 1"),
            ("--logging-fraction", 1.5, "argument --logging-fraction: 1.5 is not between 0 and 1"),
            ("--heldout-fraction", 1, "argument --heldout-fraction: 1 is not between 0 and 1"),
            ("--heldout-fraction", "nan", "argument --heldout-fraction: nan is not between 0 and 1"),
            ("--heldout-fraction", "most", "argument --heldout-fraction: invalid fraction value: 'most'"),
            ("--seed", -1, "argument --seed: -1 is less than 0"),
            ("--seed", 1.5, "argument --seed: invalid whole number value: '1.5'"),
            ("--split-unit", "rows", "argument --split-unit: invalid choice: 'rows' (choose from"),
        ],
    )
    def test_of_split(self, toy, tmp_path, capsys, option, value, message):
        options = split_options(**{option: value})
        error = fails(capsys, tmp_path / "split.npz", "split", "--train", toy / "train.npz", *options)
        assert error.startswith(f"drcrm split: {message}")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["context", "--heldout-fraction", 0.25], "--heldout-fraction is of rows: under --split-unit context the"),
            (["row"], "--split-unit row needs --heldout-fraction"),
        ],
    )
    def test_of_replay(self, toy, tmp_path, capsys, arguments, message):
        read = "--train", toy / "train.npz", "--split", toy / "split.npz", "--policy", toy / "logging.npz"
        axes = "--replay-count", 2, "--dataset", "t", "--seed", 0, "--split-unit", *arguments
        assert fails(capsys, tmp_path / "log.npz", "replay", *read, *axes).startswith(f"drcrm replay: {message}")

    def test_a_unit_of_poems_grid_is_poems(self, toy, tmp_path, capsys):
        arguments = "--log", toy / "replay4/log.npz", "--estimator", "CIPS", "--variance-penalty-scale", "unit"
        error = fails(capsys, tmp_path / "fit.npz", "fit", *arguments)
        assert error == "drcrm fit: --variance-penalty-scale is POEM's, not CIPS's"

    def test_nothing_left_to_train_on(self, toy, tmp_path, capsys):
        options = split_options(**{"--heldout-fraction": 0.999})
        error = fails(capsys, tmp_path / "split.npz", "split", "--train", toy / "train.npz", *options)
        expected = "61 contexts, all of them held out by a fraction of 0.999"
        assert error == f"drcrm split: {toy / 'train.npz'}: {expected}"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["KLDR"], "unknown estimator 'KLDR'; did you mean 'KLDRO'? (allowed: CIPS, POEM, "),
            (["nowhere:Risk"], "estimator nowhere:Risk: No module named 'nowhere'"),
            (["math:Risk"], "estimator math:Risk: module 'math' has no attribute 'Risk'"),
            (["math:sqrt"], "estimator math:sqrt: sqrt must be a subclass of drcrm.risks.Risk"),
            (
                ["KLDRO"],
                "the hyper-parameter of KLDRO is none, expected radius and at least one value, or a value of radius "
                "among the options",
            ),
            (["KLDRO", "--parameter", "radius"], "the hyper-parameter of KLDRO is radius and 0 values, expected"),
            (["KLDRO", "--parameter", "gamma", "--grid", 1], "the hyper-parameter of KLDRO is gamma and 1 values"),
            (["CIPS", "--parameter", "radius", "--grid", 1], "the hyper-parameter of CIPS is radius and 1 values"),
            (["KLDRO", "--parameter", "radius", "--grid", -1], "radius is -1.0, expected a finite number ≥ 0"),
            (["KLDRO", "--parameter", "radius", "--grid", "nan"], "radius is nan, expected a finite number ≥ 0"),
            (["KLCRM", "--parameter", "temperature", "--grid", 0], "temperature is 0.0, expected a finite number > 0"),
            (["KLDRO", "--parameter", "radius", "--grid", "small"], "argument --grid: invalid float value: 'small'"),
            (
                ["KLDRO", "--parameter", "radius", "--grid", 1, "--options", '{"variance": "sum"}'],
                "KLDRO has no parameter 'variance', expected radius",
            ),
            (
                ["AdaptiveKLCRM", "--parameter", "radius", "--grid", 1, "--options", '{"radius": 2}'],
                "'radius' is the hyper-parameter of AdaptiveKLCRM, no option",
            ),
            (
                ["AdaptiveKLCRM", "--parameter", "radius", "--grid", 1, "--options", '{"variance": "median"}'],
                "variance is 'median', expected 'mean' or 'sum'",
            ),
            (
                ["CIPS", "--options", '{"start": "logging"}'],
                "start 'logging' needs the logging policy's coefficients; 'imitation' learns some from the log",
            ),
            (["CIPS", "--options", '{"start": "there"}'], "start is 'there', expected one of 'zero', 'logging', "),
            (["CIPS", "--options", '{"start": "model", "tilt": "steep"}'], "tilt is 'steep', expected 'auto' or a"),
            (["CIPS", "--options", '{"estimate": "sips"}'], "estimate is 'sips', expected one of 'ips', 'snips', "),
            (["CIPS", "--options", '{"weight": "heavy"}'], "weight is 'heavy', expected one of 'clipped', 'implicit'"),
            (["CIPS", "--options", '{"weight": "shrunk"}'], "the hyper-parameter of CIPS is none, expected weight.shr"),
            (
                ["LogSmoothing", "--parameter", "smoothing", "--grid", 1, "--options", '{"estimate": "dr"}'],
                "estimate is 'dr', expected one of 'ips', 'dm'",
            ),
            (["CIPS", "--options", "variance"], "argument --options: is not JSON: Expecting value: line 1"),
            (["CIPS", "--options", "[1]"], "argument --options: '[1]' is not a JSON object"),
            (["CIPS", "--clip", 3], "unrecognized arguments: --clip 3"),
        ],
    )
    def test_of_fit(self, toy, tmp_path, capsys, arguments, message):
        log = "--log", toy / "replay4/log.npz"
        error = fails(capsys, tmp_path / "fit.npz", "fit", *log, "--estimator", *arguments)
        assert error.startswith("drcrm fit: " + message)

    @pytest.mark.parametrize("value", [0, -1, "inf", "nan"])
    def test_of_log_crf(self, toy, tmp_path, capsys, value):
        contexts = "--train", toy / "train.npz", "--split", toy / "split.npz"
        error = fails(capsys, tmp_path / "logging.npz", "log_crf", *contexts, f"--logging-c={value}")
        assert error == f"drcrm log_crf: argument --logging-c: {value} is not a finite number above 0"

    @pytest.mark.parametrize(("arguments", "message"), [([], "required: NAME"), (["fiit"], "invalid choice: 'fiit'")])
    def test_of_no_step(self, capsys, arguments, message):
        assert run(*arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
