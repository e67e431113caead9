from quiver_fast.loop.opener import Opener
from quiver_fast.loop.syncer import Syncer
from quiver_fast.queuefile.directory import QueueDirectory

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
