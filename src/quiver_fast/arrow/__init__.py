"""The arrow pyfast: one client that sends to or receives from one queue."""
