from quiver_fast.engine.sender import Sender

class BacklogSender(Sender):
    def __init__(self, *arguments: object, backlog: int, **options: object) -> None: ...
