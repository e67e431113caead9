"""The options of a server: keys of the server contract, and the flags that set them."""

from __future__ import annotations

from quiver_fast.options.option import CHOICE, NUMBER, SWITCH, TEXT, Option

__all__ = [
    "LIMITS", "METRICS", "OTHERS", "SECURITY", "SERVER_EXTENSIONS", "SERVER_OPTIONS", "STORAGE",
]  # fmt: skip

# Headings of the usage text, and of the help of `quiver-server`.
_REQUIRED, _BESIDES = "Required", "What wrappers pass besides (default)"
_SAFETY, _ADDRESSES = "Security (default)", "Addresses and messages (default)"
_REMOTE, _CONNECT = "Remote queues (default)", "Other servers (default)"
_PROTOCOL = "Limits of the protocol (default)"
SECURITY, STORAGE, OTHERS = "security options", "storage options", "other servers"
LIMITS = "limits"
METRICS = "metrics"
_METRICS = "Metrics (default)"
LOOPBACK = "127.0.0.1"

_MEBIBYTE = 1 << 20

SERVER_OPTIONS = (
    Option("host", TEXT, "TEXT", "where to listen", section=_REQUIRED, csp=True),
    Option("path", TEXT, "TEXT", "a queue (or topic...) that is there from the start",
        section=_REQUIRED, csp=True),
    Option("port", TEXT, "NUMBER|-", "'-' is the scheme's default port", shown="-",
        section=_BESIDES, csp=True),
    Option("ready-file", TEXT, "FILE|-", "gets the line 'ready' when connections are accepted",
        shown="-: none", section=_BESIDES, csp=True),
    Option("quiet", SWITCH, "", "say nothing", False, section=_BESIDES, csp=True),
    Option("verbose", SWITCH, "", "say more", False, section=_BESIDES, csp=True),
    Option("scheme", CHOICE, "", "AMQP, AMQP within TLS, or remote queues alone", "amqp",
        choices=("amqp", "amqps", "csp"), section=_SAFETY, csp=True),
    Option("user", TEXT, "TEXT", "whom clients must authenticate as", section=_SAFETY,
        flag="--user", alias="--username", metavar="NAME", group=SECURITY,
        help="The user that clients must authenticate as"),
    Option("password", TEXT, "TEXT", "that user's; other users of the host can see it",
        section=_SAFETY, flag="--password", metavar="PASSWORD", group=SECURITY,
        help="The password of that user; whoever lists processes sees it, --password-file "
        "hides it"),
    Option("password-fd", TEXT, "NUMBER", "a descriptor to read the password from",
        section=_SAFETY),
    Option("cert", TEXT, "FILE", "the server's certificate; amqps needs it", section=_SAFETY,
        flag="--cert", metavar="FILE", group=SECURITY, help="The server's TLS certificate file"),
    Option("key", TEXT, "FILE", "its private key", section=_SAFETY, flag="--key", metavar="FILE",
        group=SECURITY, help="The server's TLS private key file"),
    Option("trust-store", TEXT, "FILE", "require clients to have a certificate it vouches for",
        section=_SAFETY, flag="--trust-store", metavar="FILE", group=SECURITY,
        help="Require client certificates that FILE vouches for"),
    Option("sasl-mechanisms", TEXT, "'NAME NAME'", "the only mechanisms to offer",
        section=_SAFETY, extension=True, flag="--sasl-mechanisms", metavar="NAMES",
        group=SECURITY, help="The only SASL mechanisms to offer, separated by spaces"),
    Option("allow-insecure-plain", SWITCH, "", "offer PLAIN without TLS off the loopback as well",
        False, section=_SAFETY, extension=True, flag="--allow-insecure-plain", group=SECURITY,
        help="Take passwords without TLS from other hosts as well"),
    Option("addresses", TEXT, "NAME,NAME...",
        "the only addresses, besides path; ',' for none besides path",
        shown="any, on demand", section=_ADDRESSES, extension=True, flag="--addresses",
        metavar="NAMES", group=LIMITS,
        help="The only addresses besides that of the URL, separated by commas (',' for none)"),
    Option("priorities", TEXT, "NAME,NAME...|*",
        "queues, or all, that give messages of a higher priority first; others go by time alone",
        shown="none", section=_ADDRESSES, extension=True, flag="--priorities", metavar="NAMES",
        group=LIMITS,
        help="The queues, separated by commas, that give messages of a higher priority first "
        "('*' for all)"),
    Option("queue-limit", NUMBER, "BYTES", "a queue that holds so much stops its producers",
        256 * _MEBIBYTE, least=65536, most=2**50, section=_ADDRESSES, extension=True,
        flag="--queue-limit", metavar="BYTES", group=LIMITS,
        help="Stop the producers of a queue that holds BYTES"),
    Option("memory-limit", NUMBER, "BYTES",
        "what connections may hold besides what is in queues: messages that are not complete, "
        "open transactions, unread replies; beyond it the largest holder is not read, then closed",
        0, shown="a quarter of the machine's memory", most=2**50, section=_ADDRESSES, csp=True,
        extension=True, flag="--memory-limit", metavar="BYTES", group=LIMITS,
        help="Hold BYTES for all connections besides what is in queues; beyond that the one that "
        "holds most is not read, then closed"),
    Option("max-message-size", NUMBER, "BYTES", "refuse larger messages", 0,
        zero="what the queue limit lets in; streams of any size", most=2**50, section=_ADDRESSES,
        extension=True, flag="--max-message-size", metavar="BYTES", group=LIMITS,
        help="Refuse messages above BYTES"),
    Option("credit", NUMBER, "MESSAGES", "what a producer may send ahead", 1000, least=1,
        most=1_000_000, section=_ADDRESSES, extension=True, flag="--credit", metavar="COUNT",
        group=LIMITS, help="Let a producer send COUNT messages ahead"),
    Option("store", TEXT, "DIRECTORY", "durable messages are kept in DIRECTORY/QUEUE/",
        section=_ADDRESSES, csp=True, extension=True, flag="--store", metavar="DIR",
        group=STORAGE, help="Keep durable messages in DIR/QUEUE/"),
    Option("durability", TEXT, "none|interval:MS|group",
        "accept durable messages when they are written, or synced to disk", "none",
        section=_ADDRESSES, csp=True, extension=True, flag="--durability", metavar="POLICY",
        group=STORAGE, help="When to synchronise them with the disk"),
    Option("roll-size", NUMBER, "BYTES",
        "end a queue's file that is so large and mostly removed; a file goes when everything in "
        "it is", 256 * _MEBIBYTE, least=65536, most=2**50, section=_ADDRESSES, extension=True,
        flag="--roll-size", metavar="BYTES", group=STORAGE,
        help="End a file of BYTES that is mostly removed, to give its space back"),
    Option("verify", SWITCH, "", "read every file of store wholly before serving it", False,
        section=_ADDRESSES, csp=True, extension=True, flag="--verify", group=STORAGE,
        help="Read all stored files wholly at the start, not only their ends"),
    Option("csp-port", NUMBER, "NUMBER",
        "serve the queues of store on this port besides, to anybody: not with user, trust-store "
        "or amqps; with scheme=csp they are all that is served (port 9876), without store from a "
        "temporary directory that goes with the server", 0, shown="none", most=65535,
        section=_REMOTE, extension=True, flag="--csp-port", metavar="PORT", group=STORAGE,
        help="Serve the stored queues at PORT"),
    Option("no-create", SWITCH, "", "csp clients may not create queues", False, section=_REMOTE,
        csp=True, extension=True, flag="--no-create", group=LIMITS,
        help="Let no client of remote queues make one"),
    Option("roll", TEXT, "NAME", "how often a new queue's csp writer begins a new file",
        "FAST_DAILY", section=_REMOTE, csp=True, extension=True, flag="--roll", metavar="CYCLE",
        group=STORAGE, help="How long a file of new queues lasts"),
    Option("retain", NUMBER, "CYCLES", "keep so many files of each queue, the newest; scheme=csp",
        0, shown="all", most=2**31 - 1, section=_REMOTE, csp=True, extension=True,
        flag="--retain", metavar="CYCLES", group=STORAGE,
        help="Keep the newest CYCLES files of each remote queue"),
    Option("connect", TEXT, "[amqp[s]://]HOST[:PORT],...",
        "route to this server's consumers what others take in, and the other way",
        section=_CONNECT, extension=True, flag="--connect", metavar="URL", group=OTHERS,
        help="Exchange messages with the server at URL"),
    Option("connect-count", NUMBER, "N", "connections to each; streams share them", 1, least=1,
        most=64, section=_CONNECT, extension=True, flag="--connect-count", metavar="COUNT",
        group=OTHERS, help="Connect to it COUNT times; streams share the connections"),
    Option("connect-user", TEXT, "TEXT", "the user to be there", section=_CONNECT,
        extension=True, flag="--connect-user", metavar="NAME", group=OTHERS,
        help="Authenticate there as NAME"),
    Option("connect-password", TEXT, "TEXT", "that user's; other users of the host can see it",
        section=_CONNECT),
    Option("connect-password-fd", TEXT, "NUMBER", "a descriptor to read that password from",
        section=_CONNECT),
    Option("", TEXT, flag="--connect-password-file", metavar="FILE", extension=True,
        group=OTHERS, help="Read the password for it from the first line of FILE"),
    Option("connect-trust-store", TEXT, "FILE", "authorities to trust there",
        shown="the system's", section=_CONNECT, extension=True, flag="--connect-trust-store",
        metavar="FILE", group=OTHERS, help="The certificates to trust there"),
    Option("connect-tls-verify", SWITCH, "", "verify that server's certificate", True,
        section=_CONNECT, extension=True, flag="--connect-tls-insecure", inverted=True,
        group=OTHERS, help="Do not verify that server's certificate"),
    Option("metrics-port", NUMBER, "NUMBER",
        "serve metrics for Prometheus on this port, to anybody; needs the extra 'metrics'",
        -1, shown="none", zero="any free one, which is printed", most=65535, section=_METRICS,
        csp=True, extension=True, flag="--metrics-port", metavar="PORT", group=METRICS,
        help="Serve metrics for Prometheus at http://HOST:PORT/metrics. Needs the extra "
        "'metrics'"),
    Option("metrics-host", TEXT, "TEXT", "where to", LOOPBACK, section=_METRICS, csp=True,
        extension=True, flag="--metrics-host", metavar="HOST", group=METRICS,
        help=f"Serve them on HOST instead of {LOOPBACK}: there are no users and no TLS"),
    Option("stream-sessions", CHOICE, "",
        "a session for each link that is attached for a stream, or one for those of a connection",
        "own", choices=("own", "shared"), section=_PROTOCOL, extension=True,
        flag="--stream-sessions", group=LIMITS,
        help="Give each link for a stream a session of its own, or share one"),
    Option("max-connections", NUMBER, "N", "connections, and as many of csp", 50_000, least=1,
        most=1_000_000, section=_PROTOCOL, csp=True, extension=True, flag="--max-connections",
        metavar="COUNT", group=LIMITS, help="Refuse connections beyond COUNT"),
    Option("max-sessions", NUMBER, "N", "sessions of a connection", 1024, least=1, most=32768,
        section=_PROTOCOL, extension=True, flag="--max-sessions", metavar="COUNT", group=LIMITS,
        help="Refuse sessions of a connection beyond COUNT"),
    Option("max-links", NUMBER, "N", "links of a connection; of csp, appenders and tailers", 4096,
        least=1, most=1_000_000, section=_PROTOCOL, csp=True, extension=True, flag="--max-links",
        metavar="COUNT", group=LIMITS, help="Refuse links of a connection beyond COUNT"),
    Option("max-transactions", NUMBER, "N", "open transactions of a connection", 1000, least=1,
        most=1_000_000, section=_PROTOCOL, extension=True, flag="--max-transactions",
        metavar="COUNT", group=LIMITS,
        help="Refuse open transactions of a connection beyond COUNT"),
    Option("max-queues", NUMBER, "N", "queues; those that clients make beyond it are refused",
        250_000, least=1, most=10_000_000, section=_PROTOCOL, csp=True, extension=True,
        flag="--max-queues", metavar="COUNT", group=LIMITS,
        help="Refuse queues that clients make beyond COUNT"),
    Option("max-frame-size", NUMBER, "BYTES", "the largest AMQP frame to take", 65536, least=512,
        most=2**24, section=_PROTOCOL, extension=True, flag="--max-frame-size", metavar="BYTES",
        group=LIMITS, help="The largest AMQP frame to take"),
    Option("handshake-timeout", NUMBER, "SECONDS", "close connections that are not open by then",
        10, least=1, most=3600, section=_PROTOCOL, extension=True, flag="--handshake-timeout",
        metavar="DURATION", group=LIMITS,
        help="Close connections that are not open after DURATION"),
    Option("idle-timeout", NUMBER, "SECONDS", "close connections that are silent for so long", 30,
        zero="never", most=2**21, section=_PROTOCOL, extension=True, flag="--idle-timeout",
        metavar="DURATION", group=LIMITS,
        help="Close connections that are silent for DURATION"),
)  # fmt: skip
"""All options."""

SERVER_EXTENSIONS = frozenset(
    option.key for option in SERVER_OPTIONS if option.key and option.extension and option.flag
)
"""The contract keys that only our own server takes."""
