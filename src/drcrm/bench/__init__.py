"""Bench for off-policy evaluation: estimators by name, and rules that select one of them."""
