"""AMQP 1.0 on the wire: transfers, flows, dispositions, and TLS."""
