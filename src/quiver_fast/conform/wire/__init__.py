"""AMQP 1.0 as bytes and frames, in plain Python, without the engine."""
