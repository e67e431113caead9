from collections.abc import Callable

from quiver_fast.arrow.amqp.replies import Replies
from quiver_fast.arrow.amqp.sender import Sender
from quiver_fast.arrow.amqp.template import MessageTemplate

class Requester(Sender):
    def __init__(
        self,
        *arguments: object,
        replies: Replies,
        replies_from: str,
        id_prefix: str,
        window: int,
        make_template: Callable[[str], MessageTemplate],
        **options: object,
    ) -> None: ...
