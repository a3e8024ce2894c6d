"""Checks of a log and of a policy's importance weights on it, and the verdict that they support."""
