from quiver_fast.arrow.run.control import Control

class Channel:
    peer: str
    cut: bool
    def __init__(self, host: str, port: int, timeout: float, control: Control) -> None: ...
    def close(self) -> None: ...
