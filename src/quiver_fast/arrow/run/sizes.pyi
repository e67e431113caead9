from quiver_fast.body_sizes import BodySize

class Sizes:
    largest: int
    def __init__(self, mix: tuple[BodySize, ...], seed: int) -> None: ...
