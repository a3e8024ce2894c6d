"""Algorithms, their grids, and the choice among fits by held-out scores."""
