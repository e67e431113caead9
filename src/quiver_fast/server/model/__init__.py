"""The structures of the server, and functions that need nothing else."""
