"""`quiver-server-skrouterd`: the Skupper router, alone, with one listener."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from quiver_fast.brokers.launcher import Broker

_PROGRAM = "skrouterd"


class Skrouterd(Broker):
    """The router as a standalone one: it hands messages over and keeps none."""

    name = "skrouterd"
    product = "Skupper router (skrouterd)"
    templates = "skrouterd"
    # It takes passwords only from a Cyrus SASL database, which is the system's.
    refused = ("user",)

    def unavailable(self) -> str | None:
        """Return why it cannot be started here, or None."""
        return None if shutil.which(_PROGRAM) else "skrouterd is not on the PATH"

    def home(self) -> Path:
        """Return the router's program."""
        return Path(shutil.which(_PROGRAM) or _PROGRAM)


BROKER = Skrouterd()

if __name__ == "__main__":
    sys.exit(BROKER.main())
