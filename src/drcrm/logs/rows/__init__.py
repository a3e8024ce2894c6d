"""Identity of rows, from arrays: hashes, pairs of equal rows, and rows that a policy was learned from."""
