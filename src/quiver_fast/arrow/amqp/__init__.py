"""An arrow over AMQP: connection, link, template, sender and receiver."""
