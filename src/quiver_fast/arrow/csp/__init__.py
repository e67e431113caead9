"""The arrow's two ends at a queue server, and the channel that they use."""
