"""Cases of the arrow contract."""

from __future__ import annotations

import re

from quiver_fast.conform.case import CONTRACT, arrow, check, rows
from quiver_fast.conform.client import Client
from quiver_fast.conform.mutation import Mutation, added, again, exits, output, word


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


@rows(arrow, CONTRACT, word("count", "6"), table={
    "contract.count/1": ("A sender sends, and records, exactly as many messages as count.", "send"),
    "contract.count/2": ("A receiver records exactly as many messages as count.", "receive"),
})  # fmt: skip
def counts(client: Client, operation: str) -> None:
    course = client.course(operation)
    check(len(course.end.lines) == 5, "5 records", course.end.lines)
    if operation == "send":
        sent = course.all("transfer")
        check(len(sent) == 5, "5 transfers", len(sent))


@arrow("contract.exit/1", CONTRACT, exits(3))
def success(client: Client) -> None:
    """The exit code of a run that succeeds is 0."""
    for operation in client.operations:
        end = client.course(operation).end
        check(end.code == 0, "exit code 0", f"exit code {end.code}")


@arrow("contract.connections/1", CONTRACT, again())
def one_connection(client: Client) -> None:
    """An arrow makes one connection."""
    for operation in client.operations:
        found = client.course(operation).connections
        check(found == 1, "1 connection", f"{found} connections")


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
