"""Rows of a log that are copies, depend on each other, or already trained a policy."""
