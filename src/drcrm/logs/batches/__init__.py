"""Batches of rows that readers yield, and their join to a log."""
