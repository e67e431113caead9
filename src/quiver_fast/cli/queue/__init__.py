"""`quiver-queue`: show queues, check them, and append to them."""
