"""The suites of go-amqp, python-qpid-proton and rhea, and their table in docs/server.md."""

from __future__ import annotations

import re
from typing import NamedTuple

from support.jms import DOCUMENT
from support.suites import Answer

BEGIN = "<!-- clients: written by tests/interop/clients_table.py -->\n"
END = "<!-- clients: end -->\n"
_ROW = re.compile(r"\| ([\w-]+) \| `(\w+)` \| (.*) \| (\w+) \| (\w+) \|")

NAMES = {"go_amqp": "go-amqp", "proton": "python-qpid-proton", "rhea": "rhea"}

CASES = {
    "go_amqp": (
        "settle_second", "settle_second_outcomes", "dynamic_source", "dynamic_target", "selector",
        "selector_in_reply", "bad_selector", "unknown_filter", "modified_annotations",
        "undeliverable_here", "released", "durable_subscription", "shared_subscription",
        "reserved_address", "large_message",
    ),
    "proton": (
        "selector", "bad_selector", "dynamic_node", "modified", "durable_subscription",
        "transaction_committed", "transaction_aborted", "settle_second",
    ),
    "rhea": (
        "settle_second", "selector", "selector_of_browser", "bad_selector", "unknown_filter",
        "reserved_address", "modified_annotations", "released", "dynamic_topic",
        "durable_subscription", "shared_subscription", "stolen_link",
    ),
}  # fmt: skip
"""The cases of each client, in the order in which it runs them."""

WORDS = {
    "settle_second": "with `rcv-settle-mode=second` the server settles first, after the outcome",
    "settle_second_outcomes": "so it does for each outcome",
    "dynamic_source": "a dynamic source is a queue of the receiver's own",
    "dynamic_target": "a dynamic target is a queue that others can read",
    "dynamic_node": "a dynamic node with lifetime and properties",
    "dynamic_topic": "a `temporary-topic` gives each of two receivers each message",
    "selector": "a selector gives the messages that match, and leaves the rest",
    "selector_in_reply": "the server's attach names the filter that is in place (3.5.3)",
    "selector_of_browser": "a browser with a selector sees the messages that match, and takes none",
    "bad_selector": "a selector that cannot be read is refused with `amqp:invalid-field`",
    "unknown_filter": "an unknown filter is refused with `amqp:not-implemented`",
    "modified": "*modified* counts a failure and brings annotations, *released* neither",
    "modified_annotations": "annotations of *modified* come with the next delivery (3.4.5)",
    "undeliverable_here": "*modified* with `undeliverable-here` goes to another receiver",
    "released": "a released message comes again, in its place",
    "durable_subscription": "a durable subscription keeps messages while its client is away",
    "shared_subscription": "receivers share a subscription's messages",
    "reserved_address": "`$management` is refused with `amqp:not-found`, and not made as a queue",
    "large_message": "a message of several frames",
    "stolen_link": "a link attached again elsewhere ends with `amqp:link:stolen` (2.6.1)",
    "transaction_committed": "a commit publishes the sent messages and removes the accepted ones",
    "transaction_aborted": "a rollback undoes both",
}
"""The expectation of each case, by its name."""


class Row(NamedTuple):
    """A case in the table of docs/server.md."""

    client: str
    case: str
    asks: str
    ours: str
    artemis: str


def block(ours: dict[str, dict[str, Answer]], artemis: dict[str, dict[str, Answer]]) -> str:
    """Return the table of all clients' runs, with its marks."""
    lines = ["| Client | Case | Expectation | ours | Artemis 2.40 |", "|---|---|---|---|---|"]
    for client, cases in CASES.items():
        for case in cases:
            given = f"{ours[client][case].gives} | {artemis[client][case].gives}"
            lines.append(f"| {NAMES[client]} | `{case}` | {WORDS[case]} | {given} |")
    return BEGIN + "\n".join(lines) + "\n" + END


def documented() -> list[Row]:
    """Return the rows of the table."""
    text = DOCUMENT.read_text()
    return [Row(*cells) for cells in _ROW.findall(text[text.index(BEGIN) : text.index(END)])]


def write(table: str) -> None:
    """Put a table in the place of the old one."""
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text[: text.index(BEGIN)] + table + text[text.index(END) + len(END) :])
