"""Identity of rows, from arrays: hashes, equal rows, recognised rows, units of dependent rows and ranks."""
