"""Commands that prepare a first run: ``drcrm example``, ``init`` and ``completion``."""
