"""The coordinator, and the two phases of a durable commit."""
