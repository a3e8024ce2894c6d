"""The algorithms by name, from the project and from users."""
