"""Readers of log files, one module for each format."""
