"""Policies: exponential, softmax and tabular ones, feature maps, and the linear map from coefficients to a log."""
