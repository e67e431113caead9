"""Sockets and the engine's events: listener, connector, admission, attach."""
