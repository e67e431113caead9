"""`quiver-server-rabbitmq-4`: RabbitMQ 4 out of another Debian system, beside this one's own."""

from __future__ import annotations

import sys

from quiver_fast.brokers.debian_root import DebianRoot, cached_root
from quiver_fast.brokers.rabbitmq import RabbitMQ


class RabbitMQ4(RabbitMQ):
    """The RabbitMQ in $RABBITMQ_ROOT or the user's cache, whatever this system has."""

    name = "rabbitmq-4"
    product = "RabbitMQ 4"

    def root(self) -> DebianRoot:
        """Return the system that it is installed in."""
        return super().root() or cached_root()


BROKER = RabbitMQ4()

if __name__ == "__main__":
    sys.exit(BROKER.main())
