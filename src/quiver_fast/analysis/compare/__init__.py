"""Runs against runs: sets, comparisons, change points."""
