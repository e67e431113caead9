from quiver_fast.arrow.amqp.sender import Sender

class LastingSender(Sender):
    def __init__(self, *arguments: object, resends: bool, **options: object) -> None: ...
