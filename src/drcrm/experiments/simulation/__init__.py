"""Simulation of bandit feedback: a logging policy acts on labelled data, which also give the true loss of any policy.

``truth`` holds labels or classes, ``replay`` draws the log, ``crf`` and ``softmax`` fit the logging policy and the
skyline, and ``losses`` has the losses. ``population`` and ``theory`` check the paper's lemmas in numbers.
"""
