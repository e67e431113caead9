from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.server.syncer import Syncer

class Store:
    files: QueueDirectory
    create: bool
    def __init__(
        self, files: QueueDirectory, *, create: bool = True, syncer: Syncer | None = None
    ) -> None: ...
