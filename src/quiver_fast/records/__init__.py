"""Records: the raw lines that arrows print, one per transfer, written and read."""
