"""Faults of machines and networks, each injected for real into a run that then goes on by the same command.

``make test-faults`` runs them. What they show is in docs/reliability.md.
"""
