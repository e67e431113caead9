"""What all commands share: options, implementations, output, the error boundary."""
