"""Tests that inject real faults of machines and networks into a run. The same command then finishes the run.

``make test-faults`` runs them, and docs/user-guide/reliability.md describes the results.
"""
