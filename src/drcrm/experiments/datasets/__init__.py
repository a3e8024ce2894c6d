"""Data sets of the experiments: sources, formats, scaling."""
