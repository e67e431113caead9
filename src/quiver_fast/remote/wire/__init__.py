"""The text wire, its frames and replies, for both ends."""
