"""Frames in, strings and figures out: comparisons, tables, markup and figures in one style."""
