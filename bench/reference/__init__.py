"""The same-run references, written in C, and their build."""
