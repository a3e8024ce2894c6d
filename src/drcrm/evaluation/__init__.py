"""A policy on a log: estimates of its cost, their terms, upper confidence bounds and sensitivity."""
