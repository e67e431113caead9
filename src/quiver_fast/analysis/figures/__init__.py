"""The figures of one run: pure functions of the facts of its files."""
