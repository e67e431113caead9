"""``python -m quiver_fast``: the command `quiver`."""

import sys

from quiver_fast.cli.commands import pair

if __name__ == "__main__":
    sys.exit(pair())
