"""The training objective, its optimiser, and starting points."""
