"""Users' own logs: from files to arrays, and what they can say."""
