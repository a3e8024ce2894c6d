"""Tables, figures and pages of an experiment, from its results."""
