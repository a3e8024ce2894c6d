"""Propensities that a log lacks: known ones, and estimates by models of the logged actions."""
