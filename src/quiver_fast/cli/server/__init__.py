"""`quiver-server`, and the server that `quiver-bench` starts."""
