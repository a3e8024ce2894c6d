"""Experiments of the paper and beyond: their configuration and data sets, simulated logs, and steps of the workflow."""
