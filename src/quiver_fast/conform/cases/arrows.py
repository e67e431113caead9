"""Cases of the arrow contract."""
