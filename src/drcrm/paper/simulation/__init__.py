"""Simulation of bandit feedback: a logging policy acts on labelled data, which also give the true loss of any policy.

``truth`` has labels or classes and computes losses, ``replay`` draws the log, and ``skylines`` fits the logging policy
and the skyline.
"""
