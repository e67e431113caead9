"""Append-only queue files (`.cq4`), as Chronicle Queue 5 writes and reads them."""
