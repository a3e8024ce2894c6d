"""Encodings of features as arrays."""
