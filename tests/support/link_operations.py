"""Operations of tests/complexity by attaches that are refused, long or repeated."""

from __future__ import annotations

from quiver_fast.conform.wire.frames import composite, encode_frame
from support.complexity import Bench, Operation
from support.fast_frames import DIGITS, NUMBER, copies

# No server makes an address that begins like this.
NOWHERE = "$none"
LONG = "n" * 2000


def _attach(address: str, name: str, handle: int) -> bytes:
    return encode_frame(
        "attach", name=name, handle=handle, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address=address),
    )  # fmt: skip


def _attach_and_detach(bench: Bench, count: int, address: str, name: str, *, closed: bool) -> None:
    client = bench.client()
    pair = _attach(address, name, 0) + encode_frame("detach", handle=0, closed=closed)
    client.pump(copies(pair, range(count)), lambda: client.seen["detach"] >= count)


def refused_and_detached(bench: Bench, count: int) -> None:
    """Attach where nothing is, and confirm each refusal."""
    _attach_and_detach(bench, count, NOWHERE, DIGITS, closed=True)


def one_name(bench: Bench, count: int) -> None:
    """Attach one link again and again, and detach it without closing."""
    _attach_and_detach(bench, count, bench.fresh("one"), "one", closed=False)


def refused_that_stay(bench: Bench, count: int) -> None:
    """Attach where nothing is, and confirm no refusal."""
    client = bench.client()
    attach = _attach(NOWHERE, DIGITS, NUMBER)
    client.pump(copies(attach, range(count)), lambda: client.seen["detach"] >= count)


def long_names(bench: Bench, count: int) -> None:
    """Attach links with long names."""
    client = bench.client()
    attach = _attach(bench.fresh("long"), DIGITS + LONG, NUMBER)
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)


LINK_OPERATIONS: list[Operation] = [
    Operation("refused attaches that are detached", refused_and_detached, 2000),
    Operation("attach and detach of one name", one_name, 2000),
    # A connection may keep 1024 of them, which is 16 N.
    Operation("refused attaches that stay", refused_that_stay, 64, scale=1),
    # Their names are compared too. Each that differs at its end only costs another 0.1 us.
    Operation("attaches with long names", long_names, 100, scale=1),
]
