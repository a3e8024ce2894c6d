"""Means, variances and exponential weights of costs, computed from z − max z to avoid cancellation."""

import numpy as np

from drcrm.arrays.numerics import exp

RARE = 1e-70  # if the total mass is smaller, terms that underflow to 0 may matter
LARGEST_EXPONENT = 1e150  # squares of larger β |z| may overflow
LARGE_EXPONENT = 1e3  # if β |max z| is larger, z minus its tilted mean loses digits


def magnitude(z: np.ndarray) -> float:
    """Return a power of 2 that is about the largest |z|; dividing by it changes no digits."""
    return 2.0 ** (np.frexp(np.abs(z).max())[1] - 1)


def centred_moments(z: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return the mean z̄, z − z̄, share · (z − z̄) and the variance Σ share (z − z̄)².

    The variance of equal costs is exactly 0.
    """
    largest = z.max()
    below = z - largest
    mean = share @ below
    centred = below - mean
    weighted = share * centred
    return largest + mean, centred, weighted, weighted @ centred


def exponential_weights(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[np.ndarray, float]:
    """Return Q = share · e^{βz} / Σ share e^{βz} and log Σ share e^{βz}, for z ≤ 0 with maximum 0."""
    tilted = beta * z
    exp(tilted, out=tilted)
    tilted *= share
    mass = tilted.sum()
    if mass < RARE:
        tilted = beta * z + np.log(share)
        largest = tilted.max()
        mass = exp(tilted - largest, out=tilted).sum()
        tilted /= mass
        return tilted, largest + np.log(mass)
    tilted /= mass
    return tilted, np.log(mass)


def boltzmann_mean(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[float, np.ndarray, float]:
    """Return m, the mean of z under s ∝ share · e^{βz}; its gradient in z at fixed β; and β² Var_s(z).

    The gradient is s (1 + β (z − m)).
    """
    largest = z.max()
    below, origin = z - largest, 0.0
    if abs(largest) * beta > LARGE_EXPONENT or below.min() * beta < -LARGEST_EXPONENT:
        z = below = np.maximum(below, -LARGEST_EXPONENT / beta)  # from here on relative to the largest z
        origin = largest
    tilted, _ = exponential_weights(below, share, beta)
    mean = tilted @ z
    scaled = z - mean
    scaled *= beta
    weighted = tilted * scaled
    variance = weighted @ scaled
    tilted += weighted
    return origin + mean, tilted, variance
