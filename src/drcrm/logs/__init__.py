"""Logs of one's own: from files to arrays, what is wrong with them, and what they say of a policy."""
