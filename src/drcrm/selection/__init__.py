"""Algorithms, fits along their grids, and the choice among the fits by held-out scores."""
