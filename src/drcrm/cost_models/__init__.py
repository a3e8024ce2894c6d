"""Cost models: ridge regression, context effects, and where a model has support."""
