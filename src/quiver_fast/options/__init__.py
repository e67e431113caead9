"""The options of the commands and the keys of the contracts, each declared once."""
