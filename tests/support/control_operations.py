"""Operations of tests/complexity by frames that name, count or ask, and move no message."""

from __future__ import annotations

from quiver_fast.conform.wire.frames import SASL_HEADER, composite, encode_frame
from support.bulk import dispositions, holding
from support.complexity import Bench, Operation
from support.floods import Flood

# Ids that no delivery has, and the last of a range from 0 on (part 2.8.9).
UNKNOWN, LAST = 1 << 30, (1 << 31) - 1
# Marks out of their order, which take seconds to normalise, and more than a SASL frame may have
# (part 5.3.1).
MARKS = "\u0300" * 16250 + "\u0316" * 16250


def _ranges(first: int, last: int, count: int, **fields: object) -> bytes:
    return encode_frame("disposition", first=first, last=last, **{"role": True, **fields}) * count


def unknown_ranges(bench: Bench, count: int) -> None:
    """Hold messages, and give outcomes to ids of no delivery, by either role."""
    client = holding(bench, bench.fresh("unknown"), count)
    accepted = {"settled": True, "state": composite("accepted")}
    client.pump(_ranges(UNKNOWN, LAST, count, **accepted))
    client.pump(_ranges(UNKNOWN, LAST, count, role=False, **accepted))
    client.echo()


def ranges_in_gaps(bench: Bench, count: int) -> None:
    """Settle the middle of the held messages, and then again and again."""
    client = holding(bench, bench.fresh("gap"), 6000)
    middle = {"first": 2000, "last": 3999, "settled": True, "state": composite("accepted")}
    client.pump(encode_frame("disposition", role=True, **middle) * count)
    client.echo()


def whole_ranges(bench: Bench, count: int) -> None:
    """Say again and again of all held messages that they are not settled."""
    client = holding(bench, bench.fresh("whole"), 1000)
    client.pump(_ranges(0, LAST, count, settled=False))
    client.pump(dispositions(range(1000), "accepted"))
    client.echo()


def logins(bench: Bench, count: int) -> None:
    """Log in by a costly name, again and again."""
    for _ in range(count):
        client = Flood(bench.port)
        bench.clients.append(client)
        client.exchange_header(SASL_HEADER)
        client.expect("sasl_mechanisms")
        response = f"\0{MARKS}\0x".encode()
        client.send("sasl_init", mechanism="PLAIN", initial_response=response)
        client.read_to_end()
        bench.close()


CONTROL_OPERATIONS: list[Operation] = [
    Operation("logins by a costly name", logins, 50),
    Operation("outcomes for ids of no delivery", unknown_ranges, 1500),
    Operation("outcomes for settled ids between others", ranges_in_gaps, 500),
    Operation("dispositions without an outcome for all", whole_ranges, 500),
]
