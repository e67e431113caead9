"""``python -m quiver_fast``: the command `quiver`."""

import sys

from quiver_fast.own_process import quiver

if __name__ == "__main__":
    sys.exit(quiver())
