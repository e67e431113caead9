"""The server's end: sessions that submit, read and tail the queues of a store."""
