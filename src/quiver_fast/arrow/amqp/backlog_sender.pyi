from quiver_fast.arrow.amqp.sender import Sender

class BacklogSender(Sender):
    def __init__(self, *arguments: object, backlog: int, **options: object) -> None: ...
