"""Policies, feature maps, and the linear map from coefficients to scores."""
