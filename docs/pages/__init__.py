"""Generated pages of the documentation: finished experiments and studies."""
