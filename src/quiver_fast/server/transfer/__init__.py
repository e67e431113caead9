"""A delivery's way: in by an inlet, out by an outlet, and its outcome."""
