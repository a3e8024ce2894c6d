"""The commands ``drcrm learn``, ``certify``, ``evaluate_policy``, ``diagnose`` and ``predict``."""
