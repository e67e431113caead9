from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.server.opener import Opener
from quiver_fast.server.syncer import Syncer

class Store:
    files: QueueDirectory
    create: bool
    max_queues: int
    max_links: int
    def __init__(
        self,
        files: QueueDirectory,
        *,
        create: bool = True,
        syncer: Syncer | None = None,
        opener: Opener | None = None,
        max_queues: int = ...,
        max_links: int = ...,
    ) -> None: ...
