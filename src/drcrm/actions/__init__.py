"""Action spaces: label vectors, one of K actions, and lists of actions that differ between contexts."""
