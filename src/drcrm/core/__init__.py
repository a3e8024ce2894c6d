"""The numerics: arrays in, arrays out. Imports nothing of the project outside but its errors."""
