"""Tables that may be larger than memory: sorted rows, message ids, ticks, latencies."""
