"""Cases of clients and arrows."""
