import socket
from typing import Any

from quiver_fast.arrow.run.control import Control
from quiver_fast.security.security import Security

class Connection:
    peer: str
    abandoned: bool
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
    def try_open(self) -> bool: ...
    def serve(self) -> bool: ...
    def confirm(self, deadline: int, purpose: str) -> None: ...
    def sessions_allowed(self) -> int: ...
    def abandon(self) -> None: ...
    def identity(self) -> dict[str, Any]: ...
    def close(self, *, ended: bool = False) -> None: ...
