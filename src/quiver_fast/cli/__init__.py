"""The commands: cooked inputs, supervised arrows, presented results."""
