"""Report on a user's log: an HTML page and a short text for the terminal."""
