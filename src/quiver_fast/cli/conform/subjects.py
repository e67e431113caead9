"""From options to the peer that is judged."""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path

from quiver_fast.cli.shared.credentials import only_one, read_password
from quiver_fast.cli.shared.implementations import find_arrow
from quiver_fast.cli.shared.url import AddressUrl, parse_url
from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.client import ClientSubject
from quiver_fast.conform.server import ServerSubject, Target
from quiver_fast.errors import PeerError, SecurityError, UsageError
from quiver_fast.urls import split_url


def server_subject(args: argparse.Namespace) -> ServerSubject:
    """Return the server of the URL, after it told its facts.

    Raises:
        UsageError: the options do not fit one another.
        PeerError: it cannot be reached, or lets nobody in.
    """
    url = parse_url(args.url, args.address or "conform")
    if url.scheme not in ("amqp", "amqps"):
        raise UsageError(f"{url.scheme} is not AMQP: the URL is one of amqp or amqps")
    if "//" not in args.url:
        raise UsageError(f"URL '{url.shown}' has no host: write //{url.shown.lstrip('/')}")
    if path := split_url(args.url).rest.strip("/"):
        raise UsageError(f"URL '{url.shown}' has a path: a queue is given by --address {path}")
    user = only_one("both name a user", {"--username": args.username, "the URL": url.username})
    password = read_password(args.password_file, {"the URL": url.password})
    if (user is None) != (password is None):
        raise UsageError("a user and a password go together: see --username, --password-file")
    target = Target(
        url.host, url.port, _tls(args, url), user, password,
        allowed=tuple((args.sasl_mechanisms or "").split()), certified=args.cert is not None,
        patience=args.patience,
    )  # fmt: skip
    try:
        return ServerSubject(target, args.address, args.timeout)
    except Unobservable as reason:
        raise PeerError(f"{url.shown}: {reason}") from None


def client_subject(args: argparse.Namespace) -> ClientSubject:
    """Return the arrow of ``--arrow``, or the client whose command ``--client`` is.

    Raises:
        UsageError: there is no such arrow.
        PeerError: the client cannot be started, or does not connect.
    """
    who, environ = "client", None
    name, command = Path((args.client or [""])[0]).name, args.client
    if args.arrow is not None:
        found = find_arrow(args.arrow)
        if found.unavailable is not None:
            raise UsageError(found.unavailable)
        who, name, command, environ = "arrow", found.name, found.command, found.environment()
    try:
        return ClientSubject(who, name, command, environ, args.patience, args.timeout)
    except Unobservable as reason:
        raise PeerError(f"{args.arrow or command[0]}: {reason}") from None


def _tls(args: argparse.Namespace, url: AddressUrl) -> ssl.SSLContext | None:
    if not url.secure:
        return None
    try:
        context = ssl.create_default_context(cafile=args.trust_store)
        if args.cert is not None:
            context.load_cert_chain(args.cert, args.key)
    except OSError as error:
        raise SecurityError(f"the certificates cannot be read: {error}") from None
    if args.tls_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
