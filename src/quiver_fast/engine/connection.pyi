import socket

from quiver_fast.engine.security.security import Security
from quiver_fast.run.control import Control

class Connection:
    peer: str
    run_id: str
    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        container_id: str,
        hostname: str,
        server: bool,
        security: Security,
        max_frame_size: int,
        idle_timeout: float,
        control: Control,
        run_id: str = "",
        capability: str = "",
        spin: bool = True,
    ) -> None: ...
    def open(self, timeout: float) -> None: ...
    def advance(self, deadline: int, purpose: str) -> None: ...
    def remote_property(self, wanted: bytes) -> str: ...
    def identity(self) -> dict[str, str | None]: ...
    def close(self, *, ended: bool = False) -> None: ...
