"""Data sets of the experiments: where files come from, their format, and arrays that steps exchange."""
