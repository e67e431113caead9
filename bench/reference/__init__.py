"""The same-run references, written in C, and how they are built."""
