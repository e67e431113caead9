"""Remote queues, `csp://`: text wire, sessions, service, client, and the arrow's two ends."""
