"""Queues and topics: entries in lanes, and who takes them."""
