"""Duplicates and dependent rows."""
