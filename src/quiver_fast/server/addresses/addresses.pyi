from quiver_fast.loop.opener import Opener
from quiver_fast.loop.reactor import Reactor
from quiver_fast.loop.syncer import Syncer
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.security.security import Security
from quiver_fast.server.config import ServerConfig

class Broker:
    config: ServerConfig
    def __init__(
        self,
        reactor: Reactor,
        config: ServerConfig,
        security: Security,
        files: QueueDirectory | None,
        syncer: Syncer | None,
        opener: Opener | None,
    ) -> None: ...
    def complete(self) -> None: ...
    def close(self) -> None: ...

def restore_subscriptions(broker: Broker) -> None: ...
