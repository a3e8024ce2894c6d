"""Tables of experiments."""
