"""Solvers of the cost models: normal equations, ridge regression and random effects."""
