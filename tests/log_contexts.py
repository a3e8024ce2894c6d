"""Contexts of a whole file, encoded."""

from collections import Counter

import numpy as np

from drcrm.logs.encoding.base import Contexts
from drcrm.logs.read_log import context_batches


def contexts_of(raw_log, encoding):
    """Return the encoded contexts of a reader's log."""
    return encoding.contexts(Contexts(raw_log.X, getattr(raw_log.actions, "starts", None)))


def read_contexts(path, encoding, mapping=None):
    """Return the contexts of a log, and the number of rows with unseen values."""
    contexts, unseen, *_ = zip(*context_batches(path, encoding, 2**17, mapping), strict=True)
    return contexts[0] if len(contexts) == 1 else np.vstack(contexts), dict(sum(map(Counter, unseen), Counter()))
