"""The AMQP engine of an arrow: connection, link, template, sender and receiver."""
