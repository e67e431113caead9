"""TLS and SASL of a connection, and the words for what failed in them."""
