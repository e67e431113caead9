"""Reports of clients whose TLS failed."""

# Clients choose some of the reasons: the others are counted together.
cdef int REFUSALS_MAX = 20
OTHER_REFUSALS = "other reasons"
# A certificate's digest follows the reason, and is no part of it.
DIGEST = " (certificate with"
# OpenSSL's words about a client that is too old.
OLD_CLIENT = ("unsupported protocol", "no shared cipher")

# RFC 8446, 6.2.
cdef int UNKNOWN_CA = 48

# How many clients were refused for each reason.
cdef dict refused = {}


cdef void report_refusal(Peer *peer) noexcept with gil:
    """Report why TLS with a client failed: its 1st time, 10th, 100th and so on.

    So clients cannot fill the log.
    """
    if (<Broker>peer.container.broker).config.quiet:
        return
    failure = tls_failure(peer.tls).decode("utf-8", "replace")
    reason = failure.partition(DIGEST)[0]
    if reason not in refused and len(refused) >= REFUSALS_MAX:
        reason = OTHER_REFUSALS
    refused[reason] = times = refused.get(reason, 0) + 1
    if str(times).strip("0") != "1":
        return
    hint = ""
    if any(words in failure for words in OLD_CLIENT):
        hint = " (allow-old-tls takes older clients)"
    elif tls_alert(peer.tls) == UNKNOWN_CA:
        hint = " (it does not trust the authority of our certificate)"
    often = f", {times:,} times" if times > 1 else ""
    sys.stderr.write(
        f"quiver-server-pyfast: refused {place_of(peer)}: TLS: {one_line(failure)}{hint}{often}\n")


cdef str place_of(Peer *peer):
    """Return the address and port of a client, if it is still known."""
    sock = socket.socket(fileno=peer.watch.fd)
    try:
        return endpoint(*sock.getpeername()[:2])
    except OSError:
        return "a client that is gone"
    finally:
        sock.detach()
