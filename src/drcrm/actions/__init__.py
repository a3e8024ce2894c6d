"""Action spaces: label vectors, single choices and lists of actions."""
