"""`quiver-conform`: judge whether a server is AMQP 1.0."""
