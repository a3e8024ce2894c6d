"""Terms of an estimate: one number for each row of a log, whose mean is the estimate."""
