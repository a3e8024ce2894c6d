"""The commands of ``drcrm``, from ``learn`` to ``export``: each parses, calls one function and writes."""
