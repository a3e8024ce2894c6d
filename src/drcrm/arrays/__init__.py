"""Arrays: checks of input, memory-mapped files, numerical helpers."""
