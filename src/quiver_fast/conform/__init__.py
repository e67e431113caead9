"""Whether a server, a client or an arrow is AMQP 1.0: cases, and what judges them."""
