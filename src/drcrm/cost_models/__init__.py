"""Cost models: ridge regression, any regressor, context effects, cross-fitting, and cells that lack an action."""
