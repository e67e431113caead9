"""A peer, its sessions and links, and the credit of its producers."""
