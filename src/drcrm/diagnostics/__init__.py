"""Checks of a log and of a policy on it, and the verdict."""
