"""Simulation: labelled data become bandit logs, and policies get true losses."""
