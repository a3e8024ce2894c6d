"""Upper confidence bounds on the mean of independent units, and sample sizes."""
