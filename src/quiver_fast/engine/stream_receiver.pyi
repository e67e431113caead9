from quiver_fast.engine.receiver import Receiver

class StreamReceiver(Receiver):
    bytes: int
