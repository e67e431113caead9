"""`quiver-arrow`, and the supervised arrow that other commands run."""
