"""Checks of propensities: the audit of logged ones, estimated ones, and the policies that made a log."""
