"""The AMQP engine of an arrow: connection, link, template, schedule, security."""
