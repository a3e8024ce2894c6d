"""Users' own logs: from files of decisions to arrays."""
