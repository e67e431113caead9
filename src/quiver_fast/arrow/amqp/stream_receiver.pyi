from quiver_fast.arrow.amqp.receiver import Receiver

class StreamReceiver(Receiver):
    bytes: int
