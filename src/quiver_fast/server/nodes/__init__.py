"""Queues and topics: entries in lanes, and their consumers."""
