"""Cases of the arrow contract."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import CONTRACT, Unobservable, arrow, check, rows
from quiver_fast.conform.client import Client
from quiver_fast.conform.mutation import (
    Mutation,
    added,
    again,
    changed,
    exits,
    output,
    word,
)
from quiver_fast.conform.program import HOST, PATH, End
from quiver_fast.conform.server import preparing
from quiver_fast.conform.wire.client import ENDS
from quiver_fast.conform.wire.codec import Value, decode_all, encode
from quiver_fast.conform.wire.frames import Fields, Frame, composite

NOT_FOUND = composite("error", condition="amqp:not-found")
SAME = encode(Value("described", (Value("ulong", 0x73), Value("list", (Value("string", "same"),)))))


@rows(arrow, CONTRACT, output(r"^\d+,", "x,"), table={
    "contract.records/1": ("A v3 sender prints its send time and 0 for each message.", "v3", "send",
                           r"\d{13},0"),
    "contract.records/2": ("A v3 receiver prints send time and receive time for each message.",
                           "v3", "receive", r"\d{13},\d{13}"),
    "contract.records/3": ("A v2 sender prints message-id and send time for each message.", "v2",
                           "send", r"[^,]+,\d{13}", output(r",\d+$", "")),
    "contract.records/4": ("A v2 receiver prints our message-id, send time and receive time.",
                           "v2", "receive", r"conform-\d+,\d{13},\d{13}", output("conform", "x")),
    "contract.records/5": ("A v1 sender prints message-id and send time for each message.", "v1",
                           "send", r"[^,]+,\d{13}", output(r",\d+$", "")),
    "contract.records/6": ("A v1 receiver prints our message-id, send time and receive time.",
                           "v1", "receive", r"conform-\d+,\d{13},\d{13}", output("conform", "x")),
})  # fmt: skip
def records(client: Client, revision: str, operation: str, pattern: str) -> None:
    lines = client.course(operation, revision).end.lines
    check(bool(lines) and all(re.fullmatch(pattern, each) for each in lines), pattern, lines)


@arrow("contract.count/1", CONTRACT, word("count", "6"))
def sent_count(client: Client) -> None:
    """A sender sends, and records, exactly as many messages as count."""
    course = client.course("send", count=321)
    for found in (course.end.lines, course.all("transfer")):
        check(len(found) == 321, "321 records and transfers", len(found))


@arrow("contract.count/2", CONTRACT, word("count", "6"),
       doubt="the contract does not speak of messages that were under way")  # fmt: skip
def received_count(client: Client) -> None:
    """A receiver records exactly as many messages as count."""
    records = client.course("receive").end.lines
    check(len(records) == 5, "5 records", records)


@rows(arrow, CONTRACT, exits(2), table={
    "contract.input/1": ("An arrow takes the named arguments of v3.", "v3", False),
    "contract.input/2": ("An arrow takes the named arguments of v2.", "v2", False),
    "contract.input/3": ("An arrow takes the nine arguments of v1.", "v1", False),
    "contract.input/4": ("An arrow takes its named arguments in any order.", "v3", True),
})  # fmt: skip
def arguments(client: Client, revision: str, backwards: bool) -> None:
    for operation in client.operations:
        end = client.course(operation, revision, backwards=backwards).end
        check(end.code == 0, "exit code 0", end.said)


@arrow("contract.input/6", CONTRACT, word("port", "1"),
       doubt="the contract of v3 names - and does not tell its meaning")  # fmt: skip
def default_port(client: Client) -> None:
    """A port of - is 5672."""
    # Nobody else listens there.
    host = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.1"
    with preparing(f"listen at {host}:5672"):
        listener = socket.create_server((host, 5672))
    with listener:
        reached = client.reaches(listener, "-", host=host)
    check(reached, f"a connection to {host}:5672", "none")


@rows(arrow, CONTRACT, word("duration", "0"), table={
    "contract.duration/1": ("A sender ends by its duration, with exit code 0.", "send"),
    "contract.duration/2": ("A receiver ends by its duration, with exit code 0.", "receive"),
})  # fmt: skip
def duration(client: Client, operation: str) -> None:
    peer = client.meet(operation, keys={"count": 0, "duration": 1}, credit=0, stock=5)
    if operation == "send":
        peer.grant(5)
    with contextlib.suppress(TimeoutError):
        peer.serve()
    end = client.end(3)
    check(end.code == 0, "exit code 0", end.said)


@arrow("contract.duration/3", CONTRACT, word("duration", "1"))
def endless(client: Client) -> None:
    """A duration of 0 ends no run."""
    for operation in client.operations:
        peer = client.meet(operation, keys={"count": 0, "duration": 0}, credit=0, stock=0)
        if operation == "send":
            peer.grant(1)
        peer.socket.settimeout(1.8)
        with contextlib.suppress(TimeoutError):
            peer.serve()
        check(peer.frames[-1].name not in ENDS, "a run without an end", peer.frames[-1])


@rows(arrow, CONTRACT, output(r"\d{10},", "1,"), table={
    "contract.records/7": ("Times are milliseconds of now.", "v3",
                           lambda now, times: all(abs(now - each) < 600_000 for each in times),
                           output(r"\d{13}", "1472344673324")),
    "contract.records/9": ("No message is received before it was sent.", "v2",
                           lambda _now, times: all(one <= two for one, two in
                                                   zip(times[::2], times[1::2], strict=True)),
                           output(r",(\d)\d{12}$", r",\g<1>000000000000")),
})  # fmt: skip
def times(client: Client, revision: str, right: Callable[[float, list[int]], bool]) -> None:
    lines = client.course("receive", revision).end.lines
    found = [int(each) for line in lines for each in line.split(",")[-2:]]
    check(bool(found) and right(time.time() * 1000, found), "such times", lines)


@arrow("contract.records/8", CONTRACT, output(r"\n\Z", ""))
def whole_lines(client: Client) -> None:
    """Each line ends with a newline, and all are there at the end."""
    for operation in client.operations:
        said = client.course(operation).end.stdout
        check(said.endswith("\n") and said.count("\n") >= 5, "5 whole lines", said)


@rows(arrow, CONTRACT, output("^S", "s"), table={
    "contract.settlement/1": ("The first settlement line and each 256th after it begins with S.",
                              lambda _sent, done: [at for at, each in enumerate(done)
                                                   if each[0] == "S"] == [0, 256, 512]),
    "contract.settlement/2": ("The other settlement lines begin with s.",
                              lambda sent, done: len(done) == len(sent)
                              and sum(each[0] == "s" for each in done) == len(sent) - 3,
                              output("^s", "S")),
})  # fmt: skip
def settlements(client: Client, right: Callable[[list[str], list[str]], bool]) -> None:
    lines = client.course("send", "v2", settlement=1, count=600).end.lines
    done = [each for each in lines if each[0] in "Ss"]
    if not done:
        raise Unobservable("it tracks no settlement")
    sent = [each for each in lines if each not in done]
    wrong = [each for each in done if not re.fullmatch(r"[Ss][^,]+,\d{13}", each)]
    check(not wrong and right(sent, done), "settlement lines as the clause says", done[:9])


@arrow("contract.settlement/3", CONTRACT, output(r"\A(.*\n)((?:.*\n)*)", r"\2\1"))
def behind_its_record(client: Client) -> None:
    """The settlement line of a message follows its line of the send."""
    lines = client.course("send", "v2", settlement=1).end.lines
    if not any(each[0] in "Ss" for each in lines):
        raise Unobservable("it tracks no settlement")
    seen: set[str] = set()
    for each in lines:
        name = each.partition(",")[0]
        check(each[0] not in "Ss" or name[1:] in seen, "the send before it", each)
        seen.add(name)


@arrow("contract.settlement/4", CONTRACT, word("settlement", "1"))
def no_settlements(client: Client) -> None:
    """Without the option there are no settlement lines."""
    lines = client.course("send", "v2").end.lines
    check(not any(each[0] in "Ss" for each in lines), "no settlement line", lines)


# -- the end


@arrow("contract.exit/1", CONTRACT, exits(3))
def success(client: Client) -> None:
    """The exit code of a run that succeeds is 0."""
    for operation in client.operations:
        end = client.course(operation).end
        check(end.code == 0, "exit code 0", end.said)


def refuse_the_link(client: Client, operation: str) -> End:
    peer = client.meet(operation, "begin")

    def refuse(frame: Frame) -> None:
        said = frame.fields
        role = not said.get("role")
        count = {} if role else {"initial_delivery_count": 0}
        own = {"channel": frame.channel, "handle": 0}
        peer.send("attach", name=said["name"], role=role, **own, **count)
        peer.send("detach", closed=True, error=NOT_FOUND, **own)

    peer.instead("attach", refuse)
    return client.finish(peer)


def close_with_an_error(client: Client, operation: str) -> End:
    peer = client.meet(operation, credit=0, stock=0)
    peer.send("close", error=NOT_FOUND)
    return client.finish(peer)


def cut_the_connection(client: Client, operation: str) -> End:
    peer = client.meet(operation, credit=0, stock=0)
    peer.socket.close()
    return client.gives_up()


@rows(arrow, CONTRACT, exits(0), table={
    "contract.exit/2": ("The exit code is not 0 if the connection is refused.",
                        Client.refused),
    "contract.exit/3": ("The exit code is not 0 if the link is refused.", refuse_the_link),
    "contract.exit/4": ("The exit code is not 0 if the peer closes with an error.",
                        close_with_an_error),
    "contract.exit/5": ("The exit code is not 0 if the connection is cut.", cut_the_connection),
})  # fmt: skip
def failure(client: Client, fail: Callable[[Client, str], End]) -> None:
    for operation in client.operations:
        check(fail(client, operation).code != 0, "an exit code other than 0", "exit code 0")


# -- connection, session and link


@arrow("contract.connections/1", CONTRACT, again())
def one_connection(client: Client) -> None:
    """An arrow makes one connection."""
    for operation in client.operations:
        found = client.course(operation).connections
        check(found == 1, "1 connection", f"{found} connections")


@arrow("contract.connections/2", CONTRACT, changed("sasl_init", mechanism="PLAIN"))
def anonymous(client: Client) -> None:
    """Without a user an arrow authenticates by ANONYMOUS."""
    for operation in client.operations:
        found = client.course(operation).one("sasl_init")
        check(found.fields["mechanism"] == "ANONYMOUS", "sasl-init mechanism=ANONYMOUS", found)


@arrow("contract.connections/3", CONTRACT, word("host", "127.0.0.2"))
def connects(client: Client) -> None:
    """An arrow of connection-mode client connects where it is told."""
    for operation in client.operations:
        with socket.create_server((HOST, 0)) as listener:
            reached = client.reaches(listener, listener.getsockname()[1], operation)
        check(reached, "a connection", "none")


@arrow("contract.connections/4", CONTRACT, word("host", "127.0.0.2"))
def listens(client: Client) -> None:
    """An arrow of connection-mode server listens where it is told."""
    for operation in client.operations:
        client.dial(operation, channel_mode="passive")


@arrow("contract.links/5", CONTRACT, word("channel-mode", "active"))
def waits(client: Client) -> None:
    """A passive arrow begins nothing, and confirms what its peer begins."""
    for operation in client.operations:
        peer = client.dial(operation, channel_mode="passive")
        peer.authenticate("ANONYMOUS")
        peer.open()
        peer.nothing("begin", "attach")
        peer.begin()
        attach = peer.attach_receiver if operation == "send" else peer.attach_sender
        attach("conform")


@rows(arrow, CONTRACT, changed("attach", target=composite("target", address="x"),
                               source=composite("source", address="x")), table={
    "contract.links/3": ("The address of the link is path.", lambda operation, said:
                         said["target" if operation == "send" else "source"].fields["address"]
                         == PATH),
    "contract.links/6": ("The role of the link is that of the operation.", lambda operation, said:
                         bool(said.get("role")) == (operation == "receive"),
                         changed("attach", role=lambda old: not old)),
})  # fmt: skip
def link(client: Client, right: Callable[[str, Fields], bool]) -> None:
    for operation in client.operations:
        peer = client.meet(operation, "begin")
        found = peer.find("attach", lambda each: each.name == "attach" or None)
        check(right(operation, found.fields), "attach as the clause says", found)


@arrow("contract.links/4", CONTRACT, word("channel-mode", "passive"))
def begins(client: Client) -> None:
    """An active arrow begins the session and the link."""
    for operation in client.operations:
        peer = client.meet(operation, "open")
        peer.expect("begin")


SECOND = Mutation("added", "close", {"": "attach", "name": "x", "handle": 1}, 1)


@rows(arrow, CONTRACT, added("close", "begin", channel=3, next_outgoing_id=0, incoming_window=1,
                             outgoing_window=1), table={
    "contract.links/1": ("An arrow begins one session.", "begin"),
    "contract.links/2": ("An arrow attaches one link.", "attach",
                         SECOND),
})  # fmt: skip
def just_one(client: Client, name: str) -> None:
    for operation in client.operations:
        found = len(client.course(operation).all(name))
        check(found == 1, f"1 {name}", f"{found} of {name}")


# -- messages, credit, transactions, rate


def parts(frame: Frame) -> dict[int, Value]:
    """Return the sections of a message by their codes."""
    return {each.value[0].value: each.value[1] for each in decode_all(frame.payload)}


def has_time(message: dict[int, Value]) -> bool:
    said = dict(message[0x74].value).get(Value("string", "SendTime"), Value("null", 0))
    return said.kind == "long" and bool(abs(time.time() * 1000 - said.value) < 600_000)


def is_durable(message: dict[int, Value]) -> bool:
    header = message.get(0x70, Value("list", ())).value[:1]
    return any(each.value is True for each in header)


def body_of(message: dict[int, Value]) -> bytes:
    found = message.get(0x75) or message.get(0x77) or Value("null", b"")
    return found.value.encode() if isinstance(found.value, str) else bytes(found.value)


@rows(arrow, CONTRACT, changed(
    "transfer", payload=lambda old: old.replace(b"SendTime", b"SentTime")
), table={
    "contract.messages/2": ("SendTime is a long of now in milliseconds.", {}, has_time),
    "contract.messages/3": ("The body is as many bytes x as body-size tells.", {"body_size": 77},
                            lambda said: body_of(said) == b"x" * 77,
                            changed("transfer", payload=lambda old: old[:-1] + b"y")),
    "contract.messages/4": ("A message is durable as it is asked for.", {"durable": 1}, is_durable,
                            changed("transfer", payload=lambda old: old[old.index(b"\0St") :])),
})  # fmt: skip
def messages(
    client: Client, keys: dict[str, Any], right: Callable[[dict[int, Value]], bool]
) -> None:
    for each in client.course("send", **keys).all("transfer"):
        check(right(parts(each)), "a message as the clause says", each)


@arrow("contract.messages/1", CONTRACT, changed("transfer", payload=lambda old: old + SAME))
def ids_differ(client: Client) -> None:
    """Messages have ids, and they differ."""
    sent = client.course("send", "v2").all("transfer")
    ids = [parts(each)[0x73].value[0].value for each in sent if 0x73 in parts(each)]
    check(len({*ids}) == len(sent), "ids that differ", ids)


@arrow("contract.credit/1", CONTRACT, changed("flow", link_credit=lambda old: old + 10))
def within_the_window(client: Client) -> None:
    """A receiver never gives more credit than its window."""
    for each in client.course("receive", count=100, credit_window=7).all("flow"):
        check(each.fields.get("link_credit", 0) <= 7, "link-credit of at most 7", each)


@arrow("contract.credit/2", CONTRACT, changed("flow", link_credit=7, delivery_count=0))
def topped_up(client: Client) -> None:
    """A receiver gives credit again, so that all its messages come."""
    peer = client.meet("receive", "begin", keys={"count": 50, "credit_window": 7}, stock=50)
    with contextlib.suppress(TimeoutError):
        peer.serve()
    check(peer.stock == 0, "credit for 50 messages", f"credit for {50 - peer.stock}")


@arrow("contract.transactions/1", CONTRACT, word("transaction-size", "5"))
def batches(client: Client) -> None:
    """Transactions have transaction-size messages, and the rest is committed at the end."""
    sizes: Counter[bytes] = Counter()
    for each in client.course("send", transaction_size=2).all("transfer"):
        state = each.fields.get("state")
        if state is not None and state.name == "transactional_state":
            sizes[state.fields["txn_id"]] += 1
    check(list(sizes.values()) == [2, 2, 1], "batches of 2, 2 and 1", list(sizes.values()))


@arrow("contract.rate/1", CONTRACT, word("rate", "0"))
def rate(client: Client) -> None:
    """Messages at a rate take at least (count - 1) / rate seconds."""
    trace = client.course("send", rate=4).trace
    at = [each.at for each in trace if each.name == "transfer"]
    # The first one may be late.
    check(at[-1] - at[0] >= 0.8, "4 a second", f"{len(at)} in {at[-1] - at[0]:.2f} s")
