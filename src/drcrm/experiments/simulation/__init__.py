"""Labelled data turned into bandit logs, and the losses of what is learned from them."""
