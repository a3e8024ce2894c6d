"""Comparison of a policy with the logging policy: verdicts, guardrails, segments, and what the next log can show."""
