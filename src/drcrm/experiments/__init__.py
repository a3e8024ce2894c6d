"""Experiments of the paper and beyond: configuration, data sets, simulation of logs, and the steps of the workflow."""
