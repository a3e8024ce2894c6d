"""Version of the package, which policy files store."""

__version__ = "0.1.0"
