"""The cases, grouped by the parts of the standard."""

from __future__ import annotations

from types import ModuleType

from quiver_fast.conform.case import Case
from quiver_fast.conform.cases import (
    arrows,
    client_transfers,
    clients,
    connections,
    links,
    messages,
    nodes,
    security,
    sessions,
    transactions,
    transfers,
)

MODULES = (
    connections, sessions, links, transfers, messages, nodes, transactions, security, clients,
    client_transfers, arrows,
)  # fmt: skip


def _cases(module: ModuleType) -> list[Case]:
    """Return the cases of a module, in the order of its file."""
    found: list[Case] = []
    for value in vars(module).values():
        group = value if isinstance(value, tuple) else (value,)
        found += [one for one in group if isinstance(one, Case)]
    return found


_WHO = ("server", "client", "arrow")
CASES = tuple(
    sorted(
        (case for module in MODULES for case in _cases(module)),
        # By the parts of the standard.
        key=lambda case: (_WHO.index(case.who), case.id[0]),
    )
)

if len({(case.who, case.id) for case in CASES}) != len(CASES):
    raise ValueError("two cases have one id")
