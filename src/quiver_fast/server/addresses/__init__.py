"""What an address names: queues, temporary nodes, subscriptions."""
