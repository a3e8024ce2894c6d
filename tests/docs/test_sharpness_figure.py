"""The figure of losses against the sharpness of π0 shows the published means."""

import sys
from pathlib import Path

import pytest
from pages.published import losses
from pages.sharpness_figure import DRAWN, EXPERIMENTS, draw_sharpness

ROOT = Path(__file__).resolve().parents[2]
SETS = {"Scene": ("scene", 1), "Yeast": ("yeast", 1), "Satimage": ("satimage", 100), "Pendigits": ("pendigits", 100)}


@pytest.mark.slow
def test_every_curve_shows_published_means_by_rising_sharpness():
    sys.path.insert(0, str(ROOT / "docs"))
    import build

    figure = draw_sharpness([build.experiment(name) for name in EXPERIMENTS[::-1]])
    assert [axes.get_title() for axes in figure.axes] == list(SETS)
    for axes, (dataset, factor) in zip(figure.axes, SETS.values(), strict=True):
        curves = [container[0] for container in axes.containers]
        assert len(curves) == len(DRAWN)
        for curve, name in zip(curves, DRAWN, strict=True):
            assert list(curve.get_xdata()) == sorted(curve.get_xdata())
            means = [factor * losses(experiment, dataset, name).mean() for experiment in EXPERIMENTS]
            assert list(curve.get_ydata()) == pytest.approx(means)
