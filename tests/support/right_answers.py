"""Changes that make our server right where it is not on purpose: the controls of `NOT_KEPT`."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.mutation import Mutation, added, changed, dropped
from quiver_fast.conform.wire.frames import composite


def error(condition: str) -> dict[str, Any]:
    return {"error": composite("error", condition=condition)}


# By the id of the case. Relays make the changes one behind the other.
RIGHT: dict[str, tuple[Mutation, ...]] = {
    "2.6.5/1": (added("detach", "end", **error("amqp:session:errant-link")),),
    "2.6.13/2": (
        dropped("detach"),
        # It releases what comes behind its detach.
        changed("disposition", state=composite("accepted")),
    ),
    "3.2.10/1": (
        added("disposition", "detach", handle=0, closed=True, **error("amqp:not-implemented")),
    ),
    "3.5.3/3": (changed("attach", source__address="conform-names/from-0"),),
}  # fmt: skip
