"""Limits on mean prices of actions: prices that are subtracted from scores until a policy meets its limits."""
