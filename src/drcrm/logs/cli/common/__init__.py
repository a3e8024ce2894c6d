"""Parts that several commands share: evaluation, bounds at every look, options and answers."""
