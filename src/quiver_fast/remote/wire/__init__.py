"""The text wire, its frames and replies, as both ends read and write them."""
