"""Launchers of other projects' brokers, in the server contract."""
