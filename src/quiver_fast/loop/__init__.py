"""The server's loop, for both protocols: reactor, threads for slow files, limit of memory."""
