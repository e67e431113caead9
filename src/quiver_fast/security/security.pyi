class Security:
    tls: bool
    username: str | None
    certificate: str | None
    key: str | None
    trust_store: str | None
    verify: bool
    mechanisms: list[str] | None
    allow_insecure_plain: bool
    allow_old_tls: bool
    def __init__(
        self,
        *,
        tls: bool = False,
        username: str | None = None,
        password: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        trust_store: str | None = None,
        verify: bool = True,
        mechanisms: list[str] | None = None,
        allow_insecure_plain: bool = False,
        allow_old_tls: bool = False,
    ) -> None: ...
    def prepare_server(self) -> None: ...

class SaslExchange:
    error: Exception | None
