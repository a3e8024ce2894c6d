"""Logs as chunks: arrays in memory or in memory-mapped files, and the executors that run functions on chunks."""
