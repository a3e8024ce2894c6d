"""Reports: tables and figures of experiments from their results, and the report on a user's log."""
