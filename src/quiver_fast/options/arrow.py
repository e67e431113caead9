"""The options of an arrow: keys of the arrow contract, and the flags that set them."""

from __future__ import annotations

from quiver_fast.options.option import CHOICE, NUMBER, RATE, SIZES, SWITCH, TEXT, Option

# Headings of the usage text, and of the help of the commands.
_REQUIRED, _BESIDES = "Required", "Also passed by wrappers (default)"
_LIMITS, _SAFETY = "Limits and load (default)", "Security (default)"
_PROTOCOL = "Records and limits of the protocol (default)"
LOAD, MESSAGE, PAIR = "test options", "message options", "pair options"
RECEIVER, SECURITY = "receiver options", "security options"
FAILURE = "failure options"

ARROW_OPTIONS = (
    Option("connection-mode", CHOICE, choices=("client", "server"), section=_REQUIRED, csp=True,
        about="connect, or listen for one peer"),
    Option("channel-mode", CHOICE, choices=("active", "passive"), section=_REQUIRED, csp=True,
        about="open session and link, or wait until the peer opens them"),
    Option("operation", CHOICE, choices=("send", "receive"), section=_REQUIRED, csp=True),
    Option("host", TEXT, "TEXT", section=_REQUIRED, csp=True),
    Option("path", TEXT, "TEXT", section=_REQUIRED, csp=True, about="the address, often a queue"),
    Option("id", TEXT, "TEXT", shown="made up", section=_BESIDES, csp=True,
        about="container id and link name"),
    Option("port", TEXT, "NUMBER|-", shown="-", section=_BESIDES, csp=True,
        about="'-' is the scheme's default port"),
    Option("duration", NUMBER, "SECONDS", "end the run after so long", 0, zero="no limit",
        most=2**40, section=_LIMITS, csp=True, flag="--duration", letter="-d", metavar="DURATION",
        initial=30, group=LOAD, help="Stop after DURATION"),
    Option("count", NUMBER, "MESSAGES", "end the run after so many", 0, zero="no limit",
        section=_LIMITS, csp=True, flag="--count", letter="-c", metavar="COUNT", initial=0,
        group=LOAD, help="Send or receive COUNT messages"),
    Option("rate", RATE, "PER-SECOND",
        "send by a schedule; latency counts from the time at which a message is due", 0,
        zero="no limit", section=_LIMITS, csp=True, flag="--rate", metavar="COUNT",
        initial=0, acts="send", group=LOAD,
        help="Send COUNT messages per second, with pyfast also 0.5; latency counts from the time "
        "at which a message is due"),
    Option("rate-steps", TEXT, "RATE:TIME,…",
        "rates that follow each other, such as 10k:30s, or ramps: 1k..10k:1m; the last one goes on",
        "", shown="none", section=_LIMITS, csp=True, title="Rate steps", extension=True,
        flag="--rate-steps", alias="--ramp", metavar="RATE:TIME,…", side="send", group=LOAD,
        help="Send at rates that follow each other, such as 10k:30s,10k..50k:1m for 30 seconds at "
        "10k/s and a ramp to 50k/s within a minute; the run takes as long, unless --duration is "
        "given. For a single ramp: --ramp 1k..100k:60s"),
    Option("arrivals", TEXT, "poisson:SEED",
        "messages are due at random distances with the mean of the rate, as independent users "
        "send; the same seed gives the same times", "", shown="even distances", section=_LIMITS,
        csp=True, title="Arrivals", extension=True, flag="--arrivals", metavar="poisson[:SEED]",
        side="send", group=LOAD,
        help="Send at random distances, as independent users do, with the mean of --rate or "
        "--rate-steps, instead of even ones; the same SEED (1 if not given) gives the same times"),
    Option("", NUMBER, "SECONDS", zero="none", flag="--warmup", metavar="DURATION", initial=0,
        most=2**31, group=LOAD,
        help="Leave the first DURATION out of all figures but 'delivery'; the records have it"),
    Option("body-size", SIZES, "BYTES", "size of a body; also LEAST..MOST, each size equally "
        "likely, or a mix such as 100:80%,10k:20%", 100, section=_LIMITS, csp=True,
        flag="--body-size", metavar="COUNT", initial=100, acts="send", group=LOAD,
        help="Send message bodies of COUNT bytes; with pyfast of LEAST..MOST bytes, each size "
        "equally likely, or of a mix such as 100:80%,10k:20%"),
    Option("body-file", TEXT, "FILE", "each message carries the bytes of the file",
        section=_LIMITS, csp=True, title="Body file", extension=True, flag="--body-file",
        metavar="FILE", side="send", group=LOAD,
        help="Send the bytes of FILE as the body of each message"),
    Option("credit-window", NUMBER, "MESSAGES", "credit window of a receiver", 1000, least=1,
        most=2**31 - 1, section=_LIMITS, csp=True, flag="--credit", metavar="COUNT", initial=1000,
        acts="receive", group=LOAD, help="Keep a credit window of COUNT messages"),
    Option("transaction-size", NUMBER, "MESSAGES", "transfer batches of so many in transactions",
        0, zero="no transactions", most=2**31 - 1, section=_LIMITS, flag="--transaction-size",
        metavar="COUNT", initial=0, group=LOAD,
        help="Transfer batches of COUNT messages in transactions"),
    Option("durable", SWITCH, "", "send messages that a server has to store", False,
        section=_LIMITS, flag="--durable", acts="send", group=LOAD,
        help="Send messages that a server has to store"),
    Option("set-message-id", SWITCH, "", "give each message an id; receivers read it", False,
        section=_LIMITS, csp=True, flag="--set-message-id", group=LOAD,
        help="Give each message an id that is unique to the run; receivers read it"),
    Option("", NUMBER, "SECONDS", zero="never", flag="--timeout", metavar="DURATION", initial=10,
        group=LOAD, help="Fail after DURATION without a transfer"),
    Option("streaming", SWITCH, "", "bodies of any size; first bytes and progress are recorded",
        False, section=_LIMITS, extension=True, flag="--streaming", group=LOAD,
        help="Stream bodies of any size; show throughput and first-byte latency"),
    Option("presettled", SWITCH, "", "send settled: at most once, no outcomes", False,
        section=_LIMITS, extension=True, flag="--presettled", side="send", group=LOAD,
        help="Send messages settled: at most once, no outcomes"),
    Option("priority", NUMBER, "", "priority of the messages", 4, most=9, section=_LIMITS,
        title="Priority", extension=True, flag="--priority", metavar="0-9", side="send",
        group=MESSAGE, help="Send messages of this priority"),
    Option("ttl", NUMBER, "MILLISECONDS", "servers drop messages that are older", 0, zero="never",
        most=2**32 - 1, section=_LIMITS, title="Time to live (ms)", extension=True, flag="--ttl",
        metavar="MILLISECONDS", side="send", group=MESSAGE,
        help="Have servers drop messages that are older"),
    Option("subject", TEXT, "TEXT", "the messages' subject", "", shown="none", section=_LIMITS,
        title="Subject", extension=True, flag="--subject", metavar="TEXT", side="send",
        group=MESSAGE, help="Send messages with this subject"),
    Option("group-id", TEXT, "TEXT", "the group of the messages, whose order servers keep", "",
        shown="none", section=_LIMITS, title="Group", extension=True, flag="--group-id",
        metavar="TEXT", side="send", group=MESSAGE, help="Send messages of this group"),
    Option("properties", TEXT, "NAME=VALUE,…",
        "application properties; whole numbers become longs, true and false booleans; also values "
        "in shares, such as color=red:20%,green:80%, the message's number, n=%n, and its id, "
        "key=%id", "",
        shown="none", section=_LIMITS, extension=True, flag="--properties",
        metavar="NAME=VALUE,…", side="send", group=MESSAGE,
        help="Send messages with these application properties; whole numbers are sent as longs, "
        "true and false as booleans. With color=red:20%,green:80% a message of five is red; n=%n "
        "is a message's number, and key=%id its id"),
    Option("receive-delay", NUMBER, "MICROSECONDS",
        "receivers: take a message, wait so long, accept it, and only then take the next", 0,
        zero="none", most=2**31 * 10**6, section=_LIMITS, title="Receive delay (us)",
        extension=True, flag="--receive-delay", alias="--work", metavar="DURATION",
        acts="receive", group=RECEIVER,
        help="Receive as a slow consumer: take a message, work on it for DURATION, such as 5ms or "
        "200us, accept it, and only then take the next"),
    Option("request-reply", SWITCH, "",
        "send requests and take their replies, or answer requests; needs records of v2", False,
        section=_LIMITS, extension=True, flag="--request-reply", group=RECEIVER,
        help="Senders send requests at --rate and take the replies of the receivers, which work on "
        "each for --receive-delay: the settlements are the round trips"),
    Option("reply-timeout", NUMBER, "MICROSECONDS",
        "requesters: a request without a reply is timed out so long after it was due", 5_000_000,
        least=1000, most=2**31 * 10**6, section=_LIMITS, title="Reply time-out (us)",
        extension=True, flag="--reply-timeout", metavar="DURATION", side="send", group=RECEIVER,
        help="Count a request as timed out that has no reply DURATION after it was due, such as "
        "500ms"),
    Option("pause", TEXT, "RECEIVE:PAUSE",
        "receivers: receive for a time, take nothing and give no credit for another, and so on, "
        "such as 10s:5s", "", shown="none", section=_LIMITS, title="Receive and pause",
        extension=True, flag="--pause-receivers", metavar="RECEIVE:PAUSE", acts="receive",
        group=RECEIVER,
        help="Have receivers stop again and again: with 10s:5s they receive for 10 seconds, take "
        "nothing and give no credit for 5, and so on"),
    Option("release", TEXT, "PERCENT",
        "receivers: release this share of the deliveries, which come again", "", shown="none",
        section=_LIMITS, title="Released share", extension=True, side="receive", flag="--release",
        metavar="PERCENT", group=RECEIVER,
        help="Have receivers release a share of the messages, such as 1% or 0.1%, evenly spread: "
        "the server delivers them again"),
    Option("reject", TEXT, "PERCENT",
        "receivers: reject this share of the deliveries, which do not come again", "",
        shown="none", section=_LIMITS, title="Rejected share", extension=True, side="receive",
        flag="--reject", metavar="PERCENT", group=RECEIVER,
        help="Have receivers reject a share of the messages, such as 0.1%, evenly spread: they "
        "count as rejected, and the server drops them or keeps them apart"),
    Option("modify", TEXT, "PERCENT[:…]",
        "receivers: answer this share of the deliveries with modified, and with :failed, "
        ":undeliverable and :KEY=VALUE for an annotation", "", shown="none", section=_LIMITS,
        title="Modified share", extension=True, side="receive", flag="--modify",
        metavar="PERCENT[:…]", group=RECEIVER,
        help="Have receivers modify a share of the messages, such as 1%:failed: the server counts "
        "a failed attempt, and delivers them again. With :undeliverable not to this receiver; "
        ":KEY=VALUE sets an annotation"),
    Option("filter", TEXT, "EXPRESSION", "receivers: only messages that match this selector",
        section=_LIMITS, title="Filter", extension=True, side="receive", flag="--filter",
        metavar="EXPRESSION", group=RECEIVER,
        help="Receive only messages that match EXPRESSION, a selector of JMS"),
    Option("filter-properties", TEXT, "NAME=VALUE,…",
        "receivers: only messages with these fields of the properties, such as subject, or "
        "application properties; a* and *z match a beginning and an end", "", shown="none",
        section=_LIMITS, title="Filter by properties", extension=True, side="receive",
        flag="--filter-properties", metavar="NAME=VALUE,…", group=RECEIVER,
        help="Receive only messages whose subject, group-id and other fields of the properties, "
        "or application properties, have these values, such as 'subject=a*,color=red': a* "
        "matches a beginning, *z an end"),
    Option("stream-offset", TEXT, "PLACE",
        "receivers: begin at this place of RabbitMQ's stream: first, last, next, an offset, a "
        "time such as 2026-11-28T21:00:00Z, or 10m for ten minutes ago", "", shown="next",
        section=_LIMITS, title="Stream offset", extension=True, side="receive",
        flag="--stream-offset", metavar="PLACE", group=RECEIVER,
        help="Receive from a stream of RabbitMQ from PLACE on: first, last (its last chunk), "
        "next, an offset, a time such as 2026-11-28T21:00:00Z, or 10m for ten minutes ago"),
    Option("stream-filter", TEXT, "VALUE",
        "senders: annotate each message of RabbitMQ's stream with the value of the property that "
        "has VALUE; receivers: get the chunks that may have VALUE", "", shown="none",
        section=_LIMITS, title="Stream filter", extension=True, flag="--stream-filter",
        metavar="VALUE", group=RECEIVER,
        help="Receive the chunks of a stream of RabbitMQ that may have messages with VALUE; "
        "senders annotate each message with the value of the property of --properties that has "
        "VALUE"),
    Option("reconnect", SWITCH, "", "after a lost connection connect again, and go on; needs "
        "records of v2", False, section=_LIMITS, extension=True, flag="--reconnect", group=FAILURE,
        help="Connect again after a lost connection, and go on: no message is sent twice; implies "
        "--settlement"),
    Option("reconnect-for", NUMBER, "SECONDS", "an end that is so long without a connection fails",
        60, zero="no limit", most=2**31, section=_LIMITS, title="Reconnect for (s)", extension=True,
        flag="--reconnect-for", metavar="DURATION", group=FAILURE,
        help="End the run as incomplete when an end is so long without a connection"),
    Option("reconnect-pause", TEXT, "FIRST,LONGEST",
        "pauses between attempts to connect again: the first one, doubled up to the longest", "",
        shown="10ms,1s", section=_LIMITS, title="Reconnect pause", extension=True,
        flag="--reconnect-pause", metavar="FIRST,LONGEST", group=FAILURE,
        help="Pause between attempts to connect again: FIRST, and twice as long each time, up to "
        "LONGEST"),
    Option("failover", TEXT, "HOST:PORT,…", "connect again there, in turns with host and port", "",
        shown="none", section=_LIMITS, title="Failover", extension=True, flag="--failover",
        metavar="URL", group=FAILURE,
        help="Connect again to URL, such as //other:5672, in turns with the one of the run (may be "
        "repeated)"),
    Option("resend", SWITCH, "",
        "send messages again that had no outcome when their connection was lost", False,
        section=_LIMITS, extension=True, flag="--resend", side="send", group=FAILURE,
        help="Send messages again that had no outcome when their connection was lost, with the "
        "same ids"),
    Option("via", TEXT, "HOST:PORT,…", "connect there; host and failover stay the names for TLS",
        section=_PROTOCOL, extension=True),
    Option("record-format", CHOICE, "", "revision of the records",
        shown="v3, or by the arguments", choices=("v1", "v2", "v3"),
        section=_PROTOCOL, csp=True, extension=True, flag="--record-format", group=LOAD,
        help="The revision of the transfer records; v1 and v2 have message ids"),
    Option("settlement", SWITCH, "", "record when each message is settled; needs records of v2",
        False, section=_LIMITS, csp=True, flag="--settlement", side="send", group=LOAD,
        help="Record when each sent message is settled, if the sender can; "
        "with pyfast it implies --record-format v2"),
    Option("time-unit", CHOICE, "", "unit of the times in records and messages", "ms",
        choices=("ms", "us", "ns"), section=_PROTOCOL, csp=True, extension=True, flag="--time-unit",
        group=LOAD,
        help="The clock unit of the transfer records. 'quiver' takes us for a pair of pyfast, "
        "because most of its latencies are fractions of a ms. Tools of upstream read ms only. "
        "With us or ns in the options, a sender with a rate stays awake, for precision"),
    Option("max-frame-size", NUMBER, "BYTES", "the largest AMQP frame to take", 65536, least=512,
        most=2**31 - 1, section=_PROTOCOL, extension=True, flag="--max-frame-size",
        metavar="COUNT", group=LOAD, help="The largest AMQP frame in bytes"),
    Option("spin", SWITCH, "",
        "poll for the peer's answer for 30 us before sleeping, if there are two CPUs and it pays",
        True, section=_PROTOCOL, extension=True, flag="--no-spin", inverted=True, group=LOAD,
        help="Sleep at once when there is nothing to do, for less CPU; by default an arrow that "
        "has another CPU polls for an answer for 30 us before"),
    Option("backlog", NUMBER, "MESSAGES",
        "senders: first send so many at full speed; then the duration and the schedule begin",
        0, zero="none", section=_LIMITS, extension=True, flag="--backlog", metavar="COUNT",
        side="send",
        help="Fill the queue with COUNT messages, without a receiver; then receive while sending "
        "goes on at --rate, and measure how the backlog drains"),
    Option("", NUMBER, "SECONDS", zero="the rest stays in the queue", extension=True,
        flag="--drain-timeout", metavar="DURATION", initial=30, group=PAIR,
        help="When the sender has ended, receive its messages for up to DURATION"),
    Option("connections", NUMBER, "COUNT",
        "so many connections in this process; count and rate are for all together", 1, least=1,
        most=100_000, section=_LIMITS, extension=True),
    Option("links", NUMBER, "COUNT",
        "so many links on each connection, each with a session and a credit-window of its own", 1,
        least=1, most=10_000, section=_LIMITS, extension=True),
    Option("queues", NUMBER, "COUNT",
        "links take turns at so many queues, whose numbers from 0 replace %d in the path", 1,
        least=1, most=100_000, section=_LIMITS, extension=True),
    Option("first-end", NUMBER, "NUMBER",
        "the number of the first link; the ids of link N begin with first-id + N * 10^13", 0,
        most=400_000, section=_LIMITS, extension=True),
    Option("scheme", CHOICE, "", "AMQP, AMQP within TLS, or a remote queue", "amqp",
        choices=("amqp", "amqps", "csp"), section=_SAFETY, csp=True),
    Option("username", TEXT, "TEXT", "authenticate as this user", section=_SAFETY,
        flag="--username", alias="--user", metavar="NAME", group=SECURITY,
        help="Authenticate as NAME; may also be in the URL"),
    Option("password", TEXT, "TEXT", "password of that user; other users of the host can see it",
        section=_SAFETY, csp=True),
    Option("password-fd", TEXT, "NUMBER", "a descriptor to read the password from",
        section=_SAFETY, csp=True),
    Option("key", TEXT, "FILE", "the private key of cert", section=_SAFETY, flag="--key",
        metavar="FILE", group=SECURITY, help="The TLS private key file of the arrow"),
    Option("cert", TEXT, "FILE", "this side's certificate; a server needs one for amqps",
        section=_SAFETY, flag="--cert", metavar="FILE", group=SECURITY,
        help="The TLS certificate file of the arrow"),
    Option("trust-store", TEXT, "FILE",
        "authorities to trust; a server requires clients to have a certificate of one of them",
        shown="the system's", section=_SAFETY, extension=True, flag="--trust-store",
        metavar="FILE", group=SECURITY, help="The certificates to trust"),
    Option("tls-verify", SWITCH, "", "verify the peer's certificate", True, section=_SAFETY,
        csp=True, extension=True, flag="--tls-insecure", inverted=True, group=SECURITY,
        help="Do not verify the peer's certificate; the summary records it"),
    Option("sasl-mechanisms", TEXT, "'NAME NAME'", "the only mechanisms to use",
        shown="the strongest that fits", section=_SAFETY, extension=True,
        flag="--sasl-mechanisms", metavar="NAMES", group=SECURITY,
        help="The SASL mechanisms to allow, separated by spaces"),
    Option("idle-timeout", NUMBER, "SECONDS", "end the run when the peer is silent for so long",
        60, zero="never", most=2**21, section=_PROTOCOL),
    Option("tail-from", CHOICE, "", "csp receivers: from the first entry, or only new ones",
        "start", choices=("start", "end"), section=_PROTOCOL, csp=True, extension=True,
        acts="receive", flag="--tail-from",
        help="Receive from a csp URL all entries, or only new ones"),
    Option("exit-when", CHOICE, "", "receivers: also end when the queue is empty", shown="never",
        choices=("empty",), section=_LIMITS, extension=True, side="receive", flag="--exit-when",
        help="Receive until the queue is empty, and end then; a pair ends when its sender has "
        "ended and the queue is empty"),
    Option("subscription", CHOICE, "",
        "receivers: a durable subscription of the topic, by id; it stays at the end, or ends",
        shown="none", choices=("keep", "end"), section=_LIMITS, extension=True, side="receive"),
    # In nanoseconds it still fits 64 bits.
    Option("run-start", NUMBER, "MILLISECONDS",
        "receivers: a message is of this run if it was sent since then (epoch) or, if records "
        "have ids, has this run-id; others are accepted, and not counted", 0, shown="none",
        most=2**63 // 10**6, section=_PROTOCOL, csp=True),
    Option("clock-base", NUMBER, "NANOSECONDS",
        "the wall clock minus the monotonic clock at the start of the run: times are the "
        "monotonic clock plus this", 0, shown="the arrow reads both at its start", most=2**62,
        section=_PROTOCOL, csp=True, extension=True),
    Option("run-id", TEXT, "TEXT", "beginning of the ids of this run's messages", "",
        shown="none", section=_PROTOCOL, csp=True),
    # So that the last of its ids still fits 63 bits.
    Option("first-id", NUMBER, "NUMBER",
        "senders: number in the id of the first message; the others count up from it", 1,
        least=1, most=2**62, section=_PROTOCOL, extension=True, side="send"),
    Option("pacing", CHOICE, "", "wait for the next message awake, or asleep",
        choices=("exact", "sleep"), extension=True, side="send",
        shown="sleep with ms, else exact", section=_PROTOCOL, csp=True),
    Option("report-file", TEXT, "FILE", "gets a report in JSON at the end", section=_PROTOCOL,
        csp=True),
    Option("control-fd", NUMBER, "NUMBER", "a stream socket to the wrapper", -1,
        shown="none", most=2**31 - 1, section=_PROTOCOL, csp=True),
    Option("address", TEXT, "TEXT",
        "the address, unchanged, instead of path, which RabbitMQ 4 may get as /queues/PATH",
        section=_PROTOCOL),
    Option("purge", SWITCH, "",
        "receivers: take and settle all messages, and record nothing", False,
        section=_PROTOCOL),
)  # fmt: skip
"""All options. Upstream's come first within each group of the help, in upstream's order."""

SUMMARY_OPTIONS = tuple(one for one in ARROW_OPTIONS if one.flag and one.key != "key")
"""The options in the configuration of a summary: all but the file of a private key."""
