"""Cases of messages: sections and outcomes (parts 3.2 to 3.4)."""
