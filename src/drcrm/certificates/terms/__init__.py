"""Terms of a policy's estimated cost on the rows of a log, whose means certificates bound."""
