"""The version, which files of policies have too."""

__version__ = "0.1.0"
