"""The pyfast server: an embedded AMQP 1.0 broker on the same engine as the arrow."""
