"""Peers that are right where ours is not: the controls of the cases in `NOT_KEPT`."""
