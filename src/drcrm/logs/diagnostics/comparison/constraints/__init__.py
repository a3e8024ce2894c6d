"""Constraints of a mapping: guardrails on other outcomes and limits on actions, and what rows show of them."""
