"""Arrays and numbers: checks of input, memory-mapped files, numerical helpers, and texts for people."""
