"""Data sets of the experiments: sources and formats of their files, scaling, and the arrays that steps exchange."""
