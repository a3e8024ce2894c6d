"""Commands that prepare a first run: ``drcrm example`` and ``init``."""
