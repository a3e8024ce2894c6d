"""Contexts of a whole file, encoded."""

from __future__ import annotations

from drcrm.logs.readers.log_files import context_batches


def read_contexts(path, encoding):
    """Return the contexts of a file, and the number of rows with unseen values."""
    [(contexts, unseen, _)] = context_batches(path, encoding, 2**17)
    return contexts, unseen
