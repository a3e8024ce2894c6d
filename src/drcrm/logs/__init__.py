"""Read log files as bandit logs, hold out rows, estimate propensities, and store policies."""
