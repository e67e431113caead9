"""What is in the files of a queue: messages, their states, and how they come back."""
