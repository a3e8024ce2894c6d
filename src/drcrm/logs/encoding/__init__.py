"""Encode the features of a log as arrays."""
