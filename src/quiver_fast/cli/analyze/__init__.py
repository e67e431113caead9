"""`quiver-analyze`: its options, its document, its text."""
