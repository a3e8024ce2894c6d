"""Random generators of the pipeline's steps."""

import zlib

import numpy as np


def generator(dataset: str, seed: int, step: str) -> np.random.Generator:
    """Return the random generator of a step.

    The generator depends only on the data set, the seed and the step, so experiments with different options share their
    draws.
    """
    return np.random.default_rng([zlib.crc32(f"{dataset}/{step}".encode()), seed])
