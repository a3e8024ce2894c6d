"""Ambiguity sets: balls of KL, χ² and other φ-divergences, and their inner problems."""
