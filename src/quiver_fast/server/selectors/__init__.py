"""Selectors: their steps in C, and the evaluation of the steps."""
