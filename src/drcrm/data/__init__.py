"""Bandit logs, their division into blocks, and the executors that run functions on blocks."""
