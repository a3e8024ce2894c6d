"""The pipeline's steps run in this process: single steps, and the whole chain on a small data set."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from drcrm.files import write_npz
from drcrm.paper.reports.plan import Plan
from drcrm.paper.steps.__main__ import main

MODULES = {
    "fetch": ("fetch", "fetch_file"),
    "logged_data": ("split", "log_crf", "skyline", "replay"),
    "learning": ("cost_model", "fit", "classify"),
    "evaluate": ("evaluate",),
    "tables": ("collect", "tables"),
    "report": ("overview", "figure"),
    "provenance": ("provenance",),
}
# Names of arrays in the files of logs and of fits
LOG = ["X", "Y", "propensity", "cost", "context", "train", "heldout"]
FIT = ["ridge", "step", "grid", "coef", "objective", "iterations", "converged", "scores", "chosen", "tilt"]
STEP_MODULES = {step: module for module, steps in MODULES.items() for step in steps}
GRID = (0.001, 0.01, 0.1, 1.0)
SCORES = ("ips", "clipped_ips", "snips", "clipped_snips", "dr", "dr_bound", "snips_bound", "ls_bound")
AXES = {"dataset": "toy", "seed": 0}
SPLIT = {"split_unit": "row", "logging_fraction": 0.2, "heldout_fraction": 0.25}
PROTOCOL = {"split_unit": "row", "logging_c": 0.5, "absent_label_score": "logged"}
PROTOCOL |= {"variance_penalty_scale": "calibrated", "logging_fraction": 0.2, "heldout_fraction": 0.25}
PROTOCOL |= {"logging": "crf", "logging_sharpness": 1, "stopping": "scaled"}
EVALUATE = {"absent_label_score": "logged", "click_rates": [1, 0], "test_shift": None, "replay_count": 4, **AXES}
TILTED = {"estimate": "dr", "start": "model", "tilt": "auto", "context_effects": False}
LEARNED = {  # parameters of the fits of the chain
    "cips": {"estimator": "CIPS"},
    "kl_dro": {"estimator": "KLDRO", "parameter": "radius", "grid": GRID},
    "dr": {"estimator": "CIPS", "options": TILTED},
}


def run_step(step: str, inputs: dict, outputs: dict, settings: dict | None = None) -> int:
    """Run a step like its rule and return its exit status."""
    arguments = []
    for name, files in {**inputs, **outputs}.items():
        arguments += [f"--{name}", *map(str, files)] if isinstance(files, list) else [f"--{name}={files or ''}"]
    return main([f"{STEP_MODULES[step]}.{step}", *arguments, f"--settings={json.dumps(settings or {})}"])


def error_of(capsys, step: str, inputs: dict, outputs: dict, parameters: dict | None = None) -> str:
    """Run a step that must fail, and return its message, one line; check that it writes nothing."""
    folders = {Path(path).parent for path in outputs.values() if isinstance(path, str | Path)}
    before = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert run_step(step, inputs, outputs, parameters) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert {path for folder in folders for path in folder.rglob("*") if path.is_file()} == before
    return line.removeprefix(f"drcrm {step}: ")


def algorithm(estimator: str, **changes) -> dict:
    """Return the parameters of a fit."""
    usual = {"parameter": None, "grid": [], "options": {}, "stopping": "scaled"}
    return {"estimator": estimator, **usual, **changes}


def plan_of(**changes) -> dict:
    """Return a plan of the toy's headline selection, one seed and replay count 4, as a JSON object."""
    usual = {"datasets": ["toy"], "selections": ["ips"], "seeds": 1, "counts": [4]}
    return asdict(Plan(**{**usual, "protocol": PROTOCOL, **changes}))


def make_contexts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return contexts whose labels depend on their features, with noise."""
    X = rng.normal(size=(n, 4))
    truth = np.array([[1.0, -1, 0], [0, 2, 1], [-1, 0, 1], [0.5, 0.5, 0]])
    return X, (X @ truth + rng.normal(size=(n, 3)) > 0).astype(np.uint8)


def evaluate_inputs(folder: Path, count: int = 4, names=tuple(LEARNED), **changes) -> dict:
    """Return the inputs of evaluate for a run of the chain."""
    run = folder / f"replay{count}"
    files = {"test": folder / "test.npz", "logging": folder / "logging.npz", "skyline": folder / "skyline.npz"}
    files |= {"log": run / "log.npz", "cost_model": run / "cost_model.npz", "classifiers": []}
    return {**files, "fits": [run / f"{name}.npz" for name in names], **changes}


def run_chain(
    folder: Path, seed: int, unit: str = "row", counts: tuple[int, ...] = (4,), logging: object = "crf"
) -> Path:
    """Run all steps from split to collect on a small random data set."""
    rng, axes = np.random.default_rng(11), {"dataset": "toy", "seed": seed}
    at = {name: folder / f"{name}.npz" for name in ("train", "test", "split", "logging", "skyline")}
    for name, n in (("train", 61), ("test", 40)):
        write_npz(at[name], **dict(zip(("X", "labels"), make_contexts(rng, n), strict=True)))
    options, contexts = {**SPLIT, "split_unit": unit}, {"train": at["train"], "split": at["split"]}
    assert run_step("split", {"train": at["train"]}, {"split": at["split"]}, {**options, **axes}) == 0
    options_of_logging = {"logging": logging, "logging_c": 0.5, "logging_sharpness": 1}
    assert run_step("log_crf", contexts, {"policy": at["logging"]}, options_of_logging) == 0
    assert run_step("skyline", contexts, {"policy": at["skyline"]}) == 0
    for count in counts:
        files = {name: folder / f"replay{count}/{name}.npz" for name in ("log", "cost_model", *LEARNED)}
        drawn = {**options, **axes, "replay_count": count, "click_rates": [1, 0]}
        assert run_step("replay", {**contexts, "policy": at["logging"]}, {"log": files["log"]}, drawn) == 0
        assert run_step("cost_model", {"log": files["log"]}, {"model": files["cost_model"]}) == 0
        for name, entry in LEARNED.items():
            inputs = {"log": files["log"], "cost_model": files["cost_model"], "logging": at["logging"]}
            assert run_step("fit", inputs, {"fits": files[name]}, algorithm(**entry)) == 0
        outputs = {name: folder / f"replay{count}/{name}.csv" for name in ("metrics", "grids")}
        parameters = {**EVALUATE, **axes, "selection": SCORES, "replay_count": count}
        assert run_step("evaluate", evaluate_inputs(folder, count), outputs, parameters) == 0
    for name in ("metrics.csv", "grids.csv"):
        runs = [folder / f"replay{count}/{name}" for count in counts]
        assert run_step("collect", {"runs": runs}, {"table": folder / name}) == 0
    return folder


def draw_results(folder: Path, counts: tuple[int, ...]) -> None:
    """Run tables, overview and one figure on collected metrics."""
    tables = {"tables": [folder / "tables/expected_loss.csv"], "pages": folder / "pages", "more": folder / "more"}
    entries = {"grids": {"cips": [], "kl_dro": GRID, "dr": []}, "papers": {"toy": ["scene", "a toy"]}}
    plan = plan_of(selections=["snips", "ips"], counts=counts[-1:], **entries)
    assert run_step("tables", {"metrics": folder / "metrics.csv"}, tables, plan) == 0
    results = {"metrics": folder / "metrics.csv", "grids": folder / "grids.csv"}
    pictures = {name: [folder / f"{name}.{kind}" for kind in ("pdf", "svg", "png")] for name in ("grid", "overview")}
    plan = plan_of(selections=["snips", "ips"], counts=counts, figure="grid")
    assert run_step("figure", results, {"figures": pictures["grid"], "latex": folder / "grid.tex"}, plan) == 0
    outputs = {"figures": pictures["overview"], "latex": folder / "overview.tex", "summary": folder / "summary.rst"}
    plan = plan_of(selections=["snips"], counts=counts[-1:])
    assert run_step("overview", {"metrics": folder / "metrics.csv"}, outputs, plan) == 0
