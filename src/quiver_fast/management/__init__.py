"""Queues of a broker: where they are, and how they are declared and deleted."""
