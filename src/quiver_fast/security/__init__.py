"""TLS and SASL of a connection, and the messages for their failures."""
