"""Estimates of a policy’s cost: IPS, SNIPS, doubly robust, direct method."""
