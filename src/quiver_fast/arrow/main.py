"""The pyfast arrow: one connection, one link, one record per transfer.

This module joins the contract to the engine. It is thin, and imports little,
because measurements include an arrow's start.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from quiver_fast import sockets
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.contract import ArrowConfig, parse, usage
from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.course import Limits
from quiver_fast.errors import QuiverError
from quiver_fast.loop import interrupt
from quiver_fast.management.addresses import node_address
from quiver_fast.program import describe, run_program, warn, warn_of_unknown
from quiver_fast.rate_steps import schedule_of
from quiver_fast.records.writer import RecordWriter
from quiver_fast.security.security import Security
from quiver_fast.wall_clock import wall_base

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any

    from quiver_fast.arrow.amqp.emptying import Purger
    from quiver_fast.arrow.amqp.ends import Ends
    from quiver_fast.arrow.amqp.receiver import Receiver
    from quiver_fast.arrow.amqp.returning import Place, Ways
    from quiver_fast.arrow.amqp.sender import Sender
    from quiver_fast.arrow.amqp.shaped_receiver import Outcomes
    from quiver_fast.arrow.csp.receiver import Receiver as RemoteReceiver
    from quiver_fast.arrow.csp.sender import Sender as RemoteSender

PROGRAM = "quiver-arrow-pyfast"
STDOUT = 1
# A peer that does not answer a handshake step in this time (seconds) never will.
SETUP_TIMEOUT = 10.0
# The least time (seconds) that a side that listens waits for its peer.
PEER_TIMEOUT = 60.0


def main(argv: list[str] | None = None) -> int:
    """Run the arrow with ``argv`` (default: the process's) and return its exit code."""
    return run_program(PROGRAM, argv, usage, lambda: describe(PROGRAM), start)


def start(words: list[str]) -> None:
    """Do the run of the arguments ``words``.

    Raises:
        QuiverError: the arguments are wrong, or the run failed.
    """
    config = parse(words)
    warn_of_unknown(PROGRAM, config.unknown)
    run(config)


def run(config: ArrowConfig) -> None:
    """Do one run, and write its report if there is a report file.

    Raises:
        QuiverError: the run failed; the class of the error tells how.
    """
    interrupt.install()
    writer = RecordWriter(STDOUT)
    endpoint: Sender | Receiver | Purger | RemoteSender | RemoteReceiver | Ends | None = None
    # Over csp the endpoint has the connection.
    connection: Connection | RemoteSender | RemoteReceiver | None = None
    reason: str | None = None
    ways: Ways | None = None
    limits = Limits(
        count=config.count,
        duration=config.duration,
        schedule=schedule_of(config.rate, config.rate_steps),
        run_start=config.run_start,
        clock_base=config.clock_base or wall_base(),
        control=Control(config.control_fd),
        reconnects=config.reconnect,
        arrivals=config.arrivals,
    )
    try:
        if config.reconnect:
            ways = make_ways(config, limits)
        if config.scheme == "csp":
            # Few arrows pay for the import.
            from quiver_fast.arrow.remote_endpoint import make_remote_endpoint

            endpoint = connection = make_remote_endpoint(config, writer, limits, SETUP_TIMEOUT)
            endpoint.transfer(SETUP_TIMEOUT)
        elif config.has_many_ends:
            endpoint = make_ends(config, writer, limits, ways)
            try:
                run_ends(endpoint)
            finally:
                connection = endpoint.connection
        else:
            connection = open_connection(config, limits.control)
            endpoint = make_endpoint(config, connection, writer, limits)
            transfer(config, connection, endpoint, ways)
        for warning in limits.warnings:
            warn(PROGRAM, warning)
        if endpoint.interrupted:
            interrupt.raise_if_pending()
    except QuiverError as error:
        reason = str(error)
        raise
    finally:
        try:
            writer.flush_now()
        finally:
            if config.report_file is not None:
                # Nothing of it is measured.
                from quiver_fast.arrow.report import write_report

                write_report(
                    config,
                    config.report_file,
                    peer=None if connection is None else last_of(connection, ways).identity(),
                    account=None if endpoint is None else endpoint.account(),
                    delays=limits.delays,
                    failures=None if ways is None else ways.documents(),
                    reason=reason,
                )


def open_connection(config: ArrowConfig, control: Control) -> Connection:
    """Connect or accept, then do TLS, SASL and the open frames.

    Raises:
        QuiverError: see :mod:`quiver_fast.errors`.
    """
    # First, because its files may be missing.
    security = security_of(config)
    if config.server:
        sock = sockets.accept(config.host, config.port, patience_of(config), SETUP_TIMEOUT, control)
    else:
        sock = sockets.connect(*place_of(config), SETUP_TIMEOUT)
    place = endpoint(config.host, config.port)
    connection = make_connection(config, sock, place, config.id, security, control)
    try:
        connection.open(SETUP_TIMEOUT)
    except QuiverError:
        connection.close()
        raise
    return connection


def place_of(config: ArrowConfig) -> tuple[str, int]:
    """Return the host and the port to connect to."""
    return config.via[0] if config.via else (config.host, config.port)


def patience_of(config: ArrowConfig) -> float | None:
    """Return how many seconds a side that listens waits for its peers; None for ever."""
    # The duration of the run, if it has one, also bounds the wait for the peer.
    return max(float(config.duration), PEER_TIMEOUT) if config.duration else None


def security_of(config: ArrowConfig) -> Security:
    """Return the security of the connections."""
    return Security(
        tls=config.scheme == "amqps",
        username=config.username,
        password=config.password,
        certificate=config.cert,
        key=config.key,
        trust_store=config.trust_store,
        verify=config.tls_verify,
        mechanisms=config.sasl_mechanisms,
    )


def make_connection(
    config: ArrowConfig,
    sock: socket,
    place: str,
    container: str,
    security: Security,
    control: Control,
    hostname: str | None = None,
) -> Connection:
    """Return the connection of a socket, which is not open yet.

    Args:
        config: the configuration of the arrow.
        sock: a connected socket.
        place: the peer's name in messages.
        container: this side's container id.
        security: see `security_of`.
        control: the socket to the wrapper.
        hostname: the host to name and to verify; None for the configured one.
    """
    return Connection(
        sock,
        peer=place,
        container_id=container,
        hostname=hostname or config.host,
        server=config.server,
        security=security,
        max_frame_size=config.max_frame_size,
        spin=config.spin,
        idle_timeout=config.idle_timeout,
        control=control,
        run_id=config.run_id,
        capability="qd.streaming-links" if config.streaming and not config.sends else "",
    )


def make_ways(config: ArrowConfig, limits: Limits) -> Ways:
    """Return how lost connections of the process come back."""
    from quiver_fast.arrow.amqp.returning import Ways, places_of

    security, many = security_of(config), config.has_many_ends

    def connect(sock: socket, place: Place, number: int) -> Connection:
        of_many = f" (connection {number + 1} of {config.connections})" if many else ""
        return make_connection(
            config, sock, place.name + of_many, f"{config.id}-{number}" if many else config.id,
            security, limits.control, place.hostname,
        )  # fmt: skip

    def address(connection: Connection, number: int) -> str:
        queue = (config.first_end + number) % config.queues
        return address_at(config, connection, str(queue) if many else "%d")

    places = places_of([(config.host, config.port), *config.failover], config.via)
    how = config.reconnect_pause, config.reconnect_for
    return Ways(places, *how, limits, config.time_unit, connect, address)


def make_ends(
    config: ArrowConfig, writer: RecordWriter, limits: Limits, ways: Ways | None = None
) -> Ends:
    """Return the ends of a process with several ends, before they connect.

    ``ways`` is how lost connections come back; None if they do not.

    Raises:
        QuiverError: the process may not have so many connections.
    """
    from quiver_fast.arrow.amqp.ends import Ends, EndsShape, allow_files

    allow_files(config.connections)
    security = security_of(config)
    place = place_of(config)
    # Sending peers share a count, and connect in any order: the receivers that they connect to
    # have the whole count together, and no receiver knows a share of its own.
    joint = config.passive and not config.sends
    shape = EndsShape(
        connections=config.connections,
        links=config.links,
        sends=config.sends,
        listens=config.server,
        passive=config.passive,
        host=place[0], port=place[1], place=endpoint(config.host, config.port),
        first=config.first_end,
        goal=config.count if joint else 0,
        exact=config.pacing == "exact" and bool(config.rate or config.rate_steps),
        patience=patience_of(config),
        counts_turns=config.sends or config.is_shaped,
    )  # fmt: skip
    if joint:
        limits = limits.share_of_none()
    make = maker(config, limits.control)

    def connect(sock: socket, place: str, number: int) -> Connection:
        name = f"{config.id}-{number}"
        return make_connection(config, sock, place, name, security, limits.control)

    def attach(connection: Connection, share: Limits, number: int) -> Sender | Receiver:
        end = config.first_end + number
        address = address_at(config, connection, str(end % config.queues))
        made = make(config, connection, writer, share, address, end)
        made.be_one_of_many(number)
        return made

    return Ends(shape, writer, limits, connect, attach, ways)


def run_ends(ends: Ends) -> None:
    """Open all connections, run to the end, and close, whatever happens between."""
    ended = False
    try:
        ends.open(SETUP_TIMEOUT)
        ends.run()
        ended = True
    finally:
        ends.close(ended=ended)


def make_endpoint(
    config: ArrowConfig, connection: Connection, writer: RecordWriter, limits: Limits
) -> Sender | Receiver | Purger:
    """Return the sending or receiving end that the configuration asks for."""
    address = address_at(config, connection)
    if config.purge:
        from quiver_fast.arrow.amqp.emptying import Purger

        return Purger(
            connection,
            writer,
            limits,
            address=address,
            name=config.id,
            credit_window=config.credit_window,
        )
    make = maker(config, limits.control)
    return make(config, connection, writer, limits, address)


def maker(config: ArrowConfig, control: Control) -> Callable[..., Sender | Receiver]:
    """Return a function that makes an end of the process, as `make_receiver` does.

    Args:
        config: the configuration of the arrow.
        control: the socket to the wrapper.
    """
    if config.sends:
        if config.request_reply:
            from quiver_fast.arrow.request_reply import request_maker

            return partial(make_sender, requests=request_maker(config))
        return make_sender
    if not config.refuses:
        return make_receiver
    from quiver_fast.arrow.amqp.shaped_receiver import Outcomes

    # Another receiver of the queue may get a message that this one cannot take.
    alone = not config.has_many_ends
    outcomes = Outcomes(control, config.release, config.reject, config.modify, alone=alone)
    return partial(make_receiver, outcomes=outcomes)


def make_receiver(
    config: ArrowConfig,
    connection: Connection,
    writer: RecordWriter,
    limits: Limits,
    address: str,
    end: int | None = None,
    outcomes: Outcomes | None = None,
) -> Receiver:
    """Return the receiving end; a sender's start does not pay for its import.

    Args:
        config: the configuration of the arrow.
        connection: an open connection.
        writer: where the records go.
        limits: when to stop.
        address: the node to receive from.
        end: the number of the end, among many; None where there is one.
        outcomes: the outcomes of the messages; None for accepting all of them.
    """
    from quiver_fast.arrow.amqp.receiver import Receiver

    filters = None
    if any(config.filters):
        from quiver_fast.arrow.amqp.source_filters import filters_of

        filters = filters_of(*config.filters)
    kind: Callable[..., Receiver] = Receiver
    if config.streaming:
        from quiver_fast.arrow.amqp.stream_receiver import StreamReceiver

        kind = StreamReceiver
    elif config.subscription:
        from quiver_fast.arrow.amqp.subscriber import Subscriber

        kind = partial(Subscriber, keep=config.subscription == "keep")
    elif config.exit_when:
        from quiver_fast.arrow.amqp.emptying import EmptyingReceiver

        kind = EmptyingReceiver
    elif config.is_shaped:
        if config.request_reply:
            from quiver_fast.arrow.request_reply import responder

            kind = responder(config)
        else:
            from quiver_fast.arrow.amqp.shaped_receiver import ShapedReceiver

            kind = ShapedReceiver
        kind = partial(
            kind,
            delay=config.receive_delay,
            receiving=config.pause.after,
            pausing=config.pause.length,
            outcomes=outcomes,
        )
    return kind(
        connection,
        writer,
        limits,
        address=address,
        name=config.id if end is None else f"{config.id}-{end}",
        credit_window=config.credit_window,
        with_ids=config.with_ids,
        id_prefix=config.id_prefix,
        time_unit=config.time_unit,
        transaction_size=config.transaction_size,
        filters=filters,
    )


def make_sender(
    config: ArrowConfig,
    connection: Connection,
    writer: RecordWriter,
    limits: Limits,
    address: str,
    end: int | None = None,
    requests: Callable[..., Callable[..., Sender]] | None = None,
) -> Sender:
    """Return the sending end; a receiver's start does not pay for its import.

    The arguments are those of `make_receiver`; `requests` is None for a sender of messages.
    """
    from quiver_fast.arrow.amqp.sender import Sender
    from quiver_fast.arrow.messages import make_template

    kind: Callable[..., Sender] = Sender
    if config.backlog:
        from quiver_fast.arrow.amqp.sender import BacklogSender

        kind = partial(BacklogSender, backlog=config.backlog)
    elif config.reconnect:
        from quiver_fast.arrow.amqp.lasting_sender import LastingSender

        kind = partial(LastingSender, resends=config.resend)
    if requests is not None:
        kind = requests(connection, partial(make_template, config, end))
    return kind(
        connection,
        writer,
        limits,
        address=address,
        name=config.id if end is None else f"{config.id}-{end}",
        template=make_template(config, end),
        with_ids=config.with_ids,
        settlement=config.settlement,
        presettled=config.presettled,
        exact=config.pacing == "exact",
        time_unit=config.time_unit,
        transaction_size=config.transaction_size,
        asked_silence=config.asked_silence,
    )


def address_at(config: ArrowConfig, connection: Connection, queue: str = "%d") -> str:
    """Return the address at the peer of the configured queue.

    Args:
        config: the configuration of the arrow.
        connection: an open connection.
        queue: the number that replaces %d.
    """
    if config.address is not None:
        return config.address.replace("%d", queue)
    path = config.path.replace("%d", queue)
    if config.server:
        # A peer that connects to us is not a broker.
        return path
    peer = connection.identity()
    return node_address(path, peer["product"], peer["version"])


def transfer(
    config: ArrowConfig,
    connection: Connection,
    endpoint: Sender | Receiver | Purger,
    ways: Ways | None,
) -> None:
    """Attach, run to the end, and close, whatever happens between."""
    ended = False
    try:
        endpoint.attach(passive=config.passive, timeout=SETUP_TIMEOUT)
        if ways is None:
            endpoint.run()
        else:
            ways.run(endpoint, connection)
        ended = True
    finally:
        last_of(connection, ways).close(ended=ended)


def last_of(connection: Any, ways: Ways | None) -> Any:
    """Return the last connection of an arrow whose first one was ``connection``."""
    return connection if ways is None else ways.connection or connection


if __name__ == "__main__":
    sys.exit(main())
