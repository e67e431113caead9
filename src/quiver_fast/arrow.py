"""The pyfast arrow: one connection, one link, one record per transfer.

This module joins the contract to the engine. It is thin, and imports little,
because an arrow's start is part of what is measured.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from quiver_fast.arguments import endpoint
from quiver_fast.contract import ArrowConfig, parse, usage
from quiver_fast.engine.connection import Connection
from quiver_fast.engine.receiver import Receiver
from quiver_fast.engine.security.security import Security
from quiver_fast.engine.sender import Sender
from quiver_fast.engine.stream_receiver import StreamReceiver
from quiver_fast.engine.template import MessageTemplate
from quiver_fast.errors import QuiverError
from quiver_fast.loop import interrupt
from quiver_fast.management.addresses import node_address
from quiver_fast.program import describe, run_program, warn_of_unknown
from quiver_fast.records.writer import RecordWriter
from quiver_fast.run import sockets
from quiver_fast.run.control import Control
from quiver_fast.run.course import Limits

if TYPE_CHECKING:
    from quiver_fast.engine.purger import Purger
    from quiver_fast.remote.arrow.receiver import Receiver as RemoteReceiver
    from quiver_fast.remote.arrow.sender import Sender as RemoteSender

__all__ = ["main"]

PROGRAM = "quiver-arrow-pyfast"
STDOUT = 1
# A peer that does not answer a handshake step in this time (seconds) never will.
SETUP_TIMEOUT = 10.0
# A side that listens waits at least so long (seconds) for its peer to be started.
PEER_TIMEOUT = 60.0
UNKNOWN_PEER = {"product": None, "version": None, "container": None}


def main(argv: list[str] | None = None) -> int:
    """Run the arrow with ``argv`` (default: the process's) and return its exit code."""
    return run_program(PROGRAM, argv, usage, lambda: describe(PROGRAM), start)


def start(words: list[str]) -> None:
    """Do the run that ``words`` ask for.

    Raises:
        QuiverError: the arguments are wrong, or the run failed.
    """
    config = parse(words)
    warn_of_unknown(PROGRAM, config.unknown)
    run(config)


def run(config: ArrowConfig) -> None:
    """Do one run, and report it where the configuration asks for that.

    Raises:
        QuiverError: the run failed; its class tells how.
    """
    interrupt.install()
    writer = RecordWriter(STDOUT)
    endpoint: Sender | Receiver | Purger | RemoteSender | RemoteReceiver | None = None
    connection: Connection | None = None
    reason: str | None = None
    limits = Limits(
        count=config.count,
        duration=config.duration,
        rate=config.rate,
        run_start=config.run_start,
        control=Control(config.control_fd),
    )
    try:
        if config.scheme == "csp":
            endpoint = make_remote_endpoint(config, writer, limits)
            endpoint.transfer(SETUP_TIMEOUT)
        else:
            connection = open_connection(config, limits.control)
            endpoint = make_endpoint(config, connection, writer, limits)
            transfer(config, connection, endpoint)
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
                write_report(config, config.report_file, connection, endpoint, reason)


def open_connection(config: ArrowConfig, control: Control) -> Connection:
    """Connect or accept, then do TLS, SASL and the open frames.

    Raises:
        QuiverError: see :mod:`quiver_fast.errors`.
    """
    security = Security(
        tls=config.scheme == "amqps",
        username=config.username,
        password=config.password,
        certificate=config.cert,
        key=config.key,
        trust_store=config.trust_store,
        verify=config.tls_verify,
        mechanisms=config.sasl_mechanisms,
    )
    if config.server:
        # A run that has an end also bounds the wait for its peer.
        patience = max(float(config.duration), PEER_TIMEOUT) if config.duration else None
        sock = sockets.accept(config.host, config.port, patience, SETUP_TIMEOUT, control)
    else:
        sock = sockets.connect(config.host, config.port, SETUP_TIMEOUT)
    connection = Connection(
        sock,
        peer=endpoint(config.host, config.port),
        container_id=config.id,
        hostname=config.host,
        server=config.server,
        security=security,
        max_frame_size=config.max_frame_size,
        spin=config.spin,
        idle_timeout=config.idle_timeout,
        control=control,
        run_id=config.run_id,
        capability="qd.streaming-links" if config.streaming and not config.sends else "",
    )
    try:
        connection.open(SETUP_TIMEOUT)
    except QuiverError:
        connection.close()
        raise
    return connection


def make_endpoint(
    config: ArrowConfig, connection: Connection, writer: RecordWriter, limits: Limits
) -> Sender | Receiver | Purger:
    """Return the sending or receiving end that the configuration asks for."""
    address = address_at(config, connection)
    if config.purge:
        from quiver_fast.engine.purger import Purger

        return Purger(
            connection,
            writer,
            limits,
            address=address,
            name=config.id,
            credit_window=config.credit_window,
        )
    if not config.sends:
        kind = StreamReceiver if config.streaming else Receiver
        return kind(
            connection,
            writer,
            limits,
            address=address,
            name=config.id,
            credit_window=config.credit_window,
            with_ids=config.with_ids,
            id_prefix=config.id_prefix,
            time_unit=config.time_unit,
            transaction_size=config.transaction_size,
            selector=config.filter or "",
        )
    template = MessageTemplate(
        config.body_size,
        durable=config.durable,
        with_id=config.set_message_id or config.with_ids,
        id_prefix=config.id_prefix,
        streaming=config.streaming,
    )
    return Sender(
        connection,
        writer,
        limits,
        address=address,
        name=config.id,
        template=template,
        with_ids=config.with_ids,
        settlement=config.settlement,
        presettled=config.presettled,
        exact=config.pacing == "exact",
        time_unit=config.time_unit,
        transaction_size=config.transaction_size,
    )


def address_at(config: ArrowConfig, connection: Connection) -> str:
    """Return the address that the configuration means to the peer."""
    if config.address is not None:
        return config.address
    if config.server:
        # A peer that connects to us is not a broker.
        return config.path
    peer = connection.identity()
    return node_address(config.path, peer["product"], peer["version"])


def make_remote_endpoint(
    config: ArrowConfig, writer: RecordWriter, limits: Limits
) -> RemoteSender | RemoteReceiver:
    """Connect to a queue server, and return the end that the configuration asks for.

    Raises:
        QuiverError: the server cannot be reached.
    """
    from quiver_fast.remote.arrow.channel import Channel
    from quiver_fast.remote.arrow.receiver import Receiver as RemoteReceiver
    from quiver_fast.remote.arrow.sender import Sender as RemoteSender

    channel = Channel(config.host, config.port, SETUP_TIMEOUT, limits.control)
    if not config.sends:
        return RemoteReceiver(
            channel,
            writer,
            limits,
            queue=config.path,
            window=config.credit_window,
            id_prefix=config.id_prefix,
            with_ids=config.with_ids,
            from_end=config.tail_from == "end",
            time_unit=config.time_unit,
        )
    return RemoteSender(
        channel,
        writer,
        limits,
        queue=config.path,
        body_size=config.body_size,
        window=config.credit_window,
        id_prefix=config.id_prefix,
        with_ids=config.with_ids,
        settlement=config.settlement,
        time_unit=config.time_unit,
    )


def transfer(
    config: ArrowConfig, connection: Connection, endpoint: Sender | Receiver | Purger
) -> None:
    """Attach, run to the end, and close, whatever happens between."""
    ended = False
    try:
        endpoint.attach(passive=config.passive, timeout=SETUP_TIMEOUT)
        endpoint.run()
        ended = True
    finally:
        connection.close(ended=ended)


def write_report(
    config: ArrowConfig,
    path: str,
    connection: Connection | None,
    endpoint: object | None,
    reason: str | None,
) -> None:
    """Write the run's own counts as JSON, renamed into place when complete."""
    import json

    report: dict[str, object] = {
        "operation": config.operation,
        "complete": reason is None,
        "reason": reason,
        "record_format": config.record_format,
        "time_unit": config.time_unit,
    }
    for name in (
        "sent", "received", "older", "foreign", "accepted", "rejected", "released", "modified",
        "unsettled", "aborted", "transactions",
    ):  # fmt: skip
        report[name] = getattr(endpoint, name, 0)
    report["queue_empty"] = getattr(endpoint, "queue_empty", None)
    report["peer"] = connection.identity() if connection else UNKNOWN_PEER
    report["address"] = getattr(endpoint, "address", None)
    if config.purge:
        report["purged"] = getattr(endpoint, "purged", 0)
    if config.streaming:
        report["bytes"] = getattr(endpoint, "bytes", 0)
    delays = getattr(endpoint, "delays", None)
    if delays is not None:
        late = {f"p{percent:g}": delays.percentile(percent) / 1000 for percent in (50, 99, 99.9)}
        report["schedule"] = {
            "rate": config.rate,
            "late_us": {**late, "max": delays.largest / 1000},
        }
    staged = f"{path}.{os.getpid()}"
    try:
        with open(staged, "w", encoding="utf-8") as stream:
            json.dump(report, stream)
        os.replace(staged, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(staged)
        raise QuiverError(f"cannot write the report {path}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
