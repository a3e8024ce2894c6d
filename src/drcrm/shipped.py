"""The algorithms that come with the package, by name: those of a configuration's ``algorithms:`` come over them."""

from pathlib import Path

ALGORITHMS = Path(__file__).with_name("algorithms.yaml")


def shipped_algorithms() -> dict[str, dict]:
    """Return the entries of ``algorithms.yaml``, as a configuration has them."""
    import yaml

    return yaml.safe_load(ALGORITHMS.read_text(encoding="utf-8"))
