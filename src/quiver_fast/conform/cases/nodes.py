"""Cases of nodes: termini, dynamic nodes, distribution modes, the anonymous terminus (part 3.5)."""
