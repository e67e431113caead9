"""`quiver-bench`: combinations of implementations, ranked."""
