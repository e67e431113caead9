"""Streaming deliveries: their content, their own links, and trunks between servers."""
