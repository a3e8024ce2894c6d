"""Decisions on policies: learn, certify and evaluate, from the files of a log to an answer with a verdict."""
