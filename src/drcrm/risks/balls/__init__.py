"""Worst-case mean costs over balls of distributions Q around the empirical distribution."""
