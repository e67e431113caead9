"""Benchmarks with same-run references, and the gates over them."""
