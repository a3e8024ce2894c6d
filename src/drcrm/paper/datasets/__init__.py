"""Data sets of the configuration: their files, their formats and their labels."""
