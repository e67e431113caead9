from quiver_fast.queuefile.appender import Appender

def append_records(
    appender: Appender, records: bytes | bytearray | memoryview, size: int
) -> int: ...
