"""`quiver-queue`: look into queues, and append to them."""
