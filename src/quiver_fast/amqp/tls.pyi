def present() -> bool: ...

class TlsContext:
    def __init__(
        self,
        *,
        server: bool,
        certificate: str | None = None,
        key: str | None = None,
        trust_store: str | None = None,
        peer: str = "required",
        old: bool = False,
    ) -> None: ...
