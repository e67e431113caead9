"""The figures of one run: pure functions of what its files say."""
