"""What both protocols wait and count with: reactor, threads for slow files, mark of memory."""
