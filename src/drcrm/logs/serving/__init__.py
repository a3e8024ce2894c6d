"""Decisions of a learned policy inside an application."""
