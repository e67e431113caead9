"""From the words of a command line to analysed runs: discovery, sources, the local backend."""
