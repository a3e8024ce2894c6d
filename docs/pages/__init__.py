"""Generated pages of the documentation: finished experiments, families of experiments and studies."""
