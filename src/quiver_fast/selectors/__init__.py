"""Conditions on messages as steps, which the server runs in C and the analysis in NumPy."""
