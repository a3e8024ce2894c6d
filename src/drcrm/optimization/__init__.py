"""Training: the objective, L-BFGS, starting points and behaviour cloning."""
