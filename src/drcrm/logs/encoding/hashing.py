"""Feature hashing: columns and signs of texts."""

from __future__ import annotations

import numpy as np


def hash_names(texts: list[str], n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns (n,) and the signs (n,) that scikit-learn's ``FeatureHasher`` assigns to texts."""
    from sklearn.feature_extraction import FeatureHasher  # imported here: it takes half a second, and few logs need it

    rows = [[text.encode("utf-8", "surrogatepass")] for text in texts] or [[b""]]
    hashed = FeatureHasher(n_columns, input_type="string").transform(rows)
    return hashed.indices[: len(texts)], hashed.data[: len(texts)]
