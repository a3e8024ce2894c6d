"""Cost models: ridge regression of the cost, context effects, and the support of the logging policy."""
