"""Training: the objective, L-BFGS, starting points, behaviour cloning, and prices of limits."""
