"""Figures of experiments and of the paper's lemmas."""
