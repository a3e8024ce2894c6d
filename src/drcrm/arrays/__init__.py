"""Arrays: checks, memory-mapped files, numerics."""
