"""Parts that several commands share: arguments, options and the writing of answers."""
