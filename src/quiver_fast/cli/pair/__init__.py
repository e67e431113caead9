"""`quiver`: one pair of arrows, or a set of such runs."""
