"""Bounds on a growing log that hold at every look."""
