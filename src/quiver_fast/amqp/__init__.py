"""AMQP 1.0 on the wire: what the engine is not asked for."""
