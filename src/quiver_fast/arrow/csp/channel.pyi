from quiver_fast.arrow.run.control import Control

class Channel:
    def __init__(self, host: str, port: int, timeout: float, control: Control) -> None: ...
