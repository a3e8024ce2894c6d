"""Logs of users: from files to bandit logs, held-out rows, estimated propensities and stored policies."""
