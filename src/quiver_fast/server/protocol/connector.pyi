from quiver_fast.security.security import Security
from quiver_fast.server.addresses.broker import Broker
from quiver_fast.server.config import Target

class Connector:
    def __init__(self, broker: Broker, target: Target, security: Security) -> None: ...
    def close(self) -> None: ...
