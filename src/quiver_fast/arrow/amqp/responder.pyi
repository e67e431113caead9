from quiver_fast.arrow.amqp.shaped_receiver import ShapedReceiver

class Responder(ShapedReceiver):
    def __init__(self, *arguments: object, reply_size: int, **options: object) -> None: ...
