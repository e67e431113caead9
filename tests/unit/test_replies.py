"""The requests that wait for replies, and the fields of letters, against slow twins."""

from __future__ import annotations

import proton
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.amqp.replies import Replies, Requests, letter_of
from quiver_fast.arrow.amqp.template import MessageTemplate

TIMEOUT = 5
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 3)),
        st.tuples(st.just("reply"), st.integers(-2, 40)),
        st.tuples(st.just("wait"), st.integers(0, 9)),
    ),
    max_size=120,
)


class Twin:
    """Every request and every reply in a list, judged by their times alone."""

    def __init__(self) -> None:
        self.due: list[int] = []
        self.replied: list[int] = []
        self.counts = dict.fromkeys(("in_time", "late", "duplicate", "foreign"), 0)

    def take(self, number: int, now: int) -> str:
        verdict = self.judge(number, now)
        self.counts[verdict] += 1
        self.replied += [number] if verdict != "foreign" else []
        return verdict

    def judge(self, number: int, now: int) -> str:
        if not 1 <= number <= len(self.due):
            return "foreign"
        if number in self.replied:
            return "duplicate"
        return "in_time" if now - self.due[number - 1] <= TIMEOUT else "late"

    def timed_out(self, now: int, answered: set[int]) -> int:
        """Return how many requests have no reply in time, and do not get one."""
        over = {n for n, due in enumerate(self.due, 1) if now - due > TIMEOUT}
        return len(over - answered)


@given(STEPS)
def test_each_request_has_one_fate(steps: list[tuple[str, int]]) -> None:
    replies, twin = Replies(TIMEOUT), Twin()
    requests, now, answered = Requests(replies), 0, set()
    for step, value in steps:
        if step == "send":
            now += value
            requests.send(now)
            twin.due.append(now)
        elif step == "wait":
            now += value
            requests.pass_time(now)
        else:
            verdict = requests.take(value, now)
            assert verdict == twin.take(value, now)
            answered |= {value} if verdict == "in_time" else set()
    requests.pass_time(now)
    found = replies.document()
    assert {name: found[name] for name in twin.counts} == twin.counts
    assert found["timed_out"] == twin.timed_out(now, answered)
    requests.pass_time(now + TIMEOUT + 1)
    # Nothing is unaccounted for.
    assert replies.document()["timed_out"] + len(answered) == len(twin.due)


def test_many_requests_wait_at_the_same_time() -> None:
    replies = Replies(TIMEOUT)
    requests = Requests(replies)
    for _ in range(20_000):
        requests.send(7)
    assert [requests.take(n, 7) for n in (20_000, 1, 9_999, 1)] == [
        "in_time", "in_time", "in_time", "duplicate",
    ]  # fmt: skip
    requests.pass_time(100)
    assert replies.document()["timed_out"] == 19_997
    assert [requests.take(n, 100) for n in (2, 2, 20_001)] == ["late", "duplicate", "foreign"]


# The engine ends a text at its first zero.
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=300)
ADDRESSES = st.one_of(st.none(), TEXTS)
IDS = st.one_of(ADDRESSES, st.uuids(), st.integers(0, 2**64 - 1))


@given(IDS, ADDRESSES, ADDRESSES, st.booleans(), st.binary(max_size=400))
def test_letters_are_read_as_a_client_wrote_them(
    message_id: object, reply_to: str | None, correlation: str | None, durable: bool, body: bytes
) -> None:
    times = {"ReceiveTime": 2**39, "other": "x", "SendTime": 2**40}
    message = proton.Message(
        body, id=message_id, reply_to=reply_to, correlation_id=correlation, durable=durable,
        properties=times,
    )  # fmt: skip
    found = letter_of(bytes(message.encode()))
    if message_id is None and reply_to is None and correlation is None:
        assert found is None or found[1:] == (b"", b"", 2**40, 2**39)
        return
    assert found is not None
    assert found[1] == (reply_to or "").encode()
    assert found[2] == (correlation or "").encode()
    assert found[3:] == (2**40, 2**39)
    other = proton.Message(correlation_id=message_id, reply_to="r")
    assert message_id is None or found[0] in bytes(other.encode())


def test_an_address_is_text() -> None:
    """A reply to an address of another type could not be encoded."""
    fields = b"\x40" * 4
    for address in (b"\xa3\x01q", b"\xa0\x01\xff", b"\x53\x07", b"\x40"):
        entries = b"\x05" + fields + address
        letter = letter_of(b"\x00\x53\x73\xc0" + bytes([len(entries)]) + entries)
        assert letter is not None
        assert letter[1] == b""


@given(st.binary(max_size=200))
def test_no_bytes_are_read_beyond_the_end(data: bytes) -> None:
    letter_of(data)
    letter_of(b"\x00\x53\x73" + data)


def test_a_request_has_the_address_for_its_reply() -> None:
    fields = MessageFields(subject="s", group_id="g", reply_to="dynamic-1")
    encoded = MessageTemplate(3, with_id=True, id_prefix="r-", fields=fields).encode(9)
    message = proton.Message()
    message.decode(encoded)
    assert (message.id, message.subject, message.reply_to, message.group_id) == (
        "r-1", "s", "dynamic-1", "g",
    )  # fmt: skip
    assert letter_of(encoded) == (b"\xa1\x03r-1", b"dynamic-1", b"", 9, -1)
