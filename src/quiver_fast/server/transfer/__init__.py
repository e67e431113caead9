"""Deliveries: in by an inlet, out by an outlet, and their outcomes."""
