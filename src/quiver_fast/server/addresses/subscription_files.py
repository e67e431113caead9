"""The files of durable subscriptions: a description beside the queue's files.

Each subscription has a folder in `%subscriptions/`, which is no legal address. A folder
without `subscription.json` belongs to no subscription.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.create import create_complete, make_folder, sync_folder

NAME = "subscription.json"


class Description(NamedTuple):
    """A durable subscription: whose it is, to what, and on which terms.

    ``container`` is None for one that all containers share; ``filter`` is the encoded
    filter-set of its source; ``durability`` is a terminus-durability (AMQP 1.0 part 3.5.5).
    """

    topic: bytes
    container: bytes | None
    name: bytes
    shared: bool
    durability: int
    filter: bytes


def keep(folder: Path, what: Description) -> None:
    """Record a subscription; it is on disk when this returns.

    Raises:
        OutputError: it cannot be written.
    """
    fields = {
        key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for key, value in what._asdict().items()
    }
    readable = {"about": f"{what.name!r} of {what.container!r} to {what.topic!r}"}
    try:
        make_folder(folder)
        create_complete(folder / NAME, json.dumps({**readable, **fields}).encode())
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}") from None


def forget(folder: Path) -> None:
    """Record the end of a subscription; its queue's files are deleted when nothing uses them.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        (folder / NAME).unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}") from None


def kept(root: Path) -> list[tuple[str, Description | OutputError]]:
    """Return the subscriptions in a folder by folder name, or why one cannot be read.

    The folders of ended subscriptions are deleted.
    """
    found: list[tuple[str, Description | OutputError]] = []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        file = folder / NAME
        if not file.exists():
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)
            continue
        try:
            found.append((folder.name, _read(file)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            found.append((folder.name, OutputError(f"{file}: {error}")))
    return found


def _read(file: Path) -> Description:
    fields = json.loads(file.read_bytes())
    return Description(
        topic=base64.b64decode(fields["topic"], validate=True),
        container=None
        if fields["container"] is None
        else base64.b64decode(fields["container"], validate=True),
        name=base64.b64decode(fields["name"], validate=True),
        shared=bool(fields["shared"]),
        durability=int(fields["durability"]),
        filter=base64.b64decode(fields["filter"], validate=True),
    )
