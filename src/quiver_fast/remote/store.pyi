from quiver_fast.queuefile.directory import QueueDirectory

class Store:
    files: QueueDirectory
    create: bool
    def __init__(self, files: QueueDirectory, *, create: bool = True) -> None: ...
