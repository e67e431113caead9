"""Messages as they came: their chunks, headers, chains in a file, routes and annotations."""
