"""The structures of the server, and what touches nothing but them."""
