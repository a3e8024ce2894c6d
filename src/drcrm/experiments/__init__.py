"""The pipeline around the core: what knows files, folders and code."""
