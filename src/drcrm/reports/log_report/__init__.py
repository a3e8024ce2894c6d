"""The report on a user’s log."""
