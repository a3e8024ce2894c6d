"""The mapping of a log: a file that says which columns are actions, propensities, outcomes and features."""
