"""Readers of users’ files."""
