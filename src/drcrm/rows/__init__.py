"""Identity of rows, from arrays: hashes, equal rows, recognised rows, folds of units and ranks."""
