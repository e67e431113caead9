"""A case: one clause that can be observed, its words, the function that judges it, its fault."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from quiver_fast.conform.mutation import Mutation
from quiver_fast.conform.wire.frames import Frame, Unexpected
from quiver_fast.conform.wire.trace import shown, text
from quiver_fast.errors import UsageError

MUST, SHOULD, CONTRACT = "MUST", "SHOULD", "contract"
KEPT, BROKEN, DISPUTED_, UNOBSERVABLE = "kept", "broken", "disputed", "unobservable"

NO_ANSWER = "the clause binds the sender; no sentence names the answer"
"""A doubt of several cases."""

_LEVELS = (MUST, SHOULD, CONTRACT)

_RETRIED = "it counts a rejection as a failed attempt, and takes the message out after the last one"
DISPUTED: Mapping[tuple[str, str], str] = {
    ("qpid-jms", "contract.links/1"): "the other session is the connection's own; the program "
    "makes one by its API, and the contract speaks of sessions of an API",
    ("Apache Qpid Broker-J Core", "3.4.3/1"): _RETRIED,
    ("Apache Qpid Broker-J Core", "4.4.2/4"): _RETRIED,
    ("apache-activemq-artemis", "2.2/4"): "its port is that of other protocols, too",
}
"""Doubts about one product: (its name in its open frame, or an arrow's name; id) -> reason."""


class Unobservable(Exception):  # noqa: N818 (a verdict on the peer)
    """The clause cannot be judged here; the text says why."""


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        id: the clause and a number, ``2.6.6/1``; never used again for something else.
        who: ``server``, ``client`` or ``arrow``. An id may be there for two of them, with the
            same words.
        level: `MUST`, `SHOULD` or `CONTRACT`.
        words: one sentence, at most 100 characters.
        breaks: the fault by which this case has to fail.
        run: takes a view of the peer.
        needs: the abilities of the peer without which the clause cannot be observed.
        doubt: why a break is only disputed.
    """

    id: str
    who: str
    level: str
    words: str
    breaks: Mutation
    run: Callable[[Any], None]
    needs: tuple[str, ...] = ()
    doubt: str = ""


_Maker = Callable[..., Callable[[Callable[[Any], None]], Case]]


def _maker(who: str) -> _Maker:
    def make(
        id: str,  # noqa: A002 (the name of the field)
        level: str,
        breaks: Mutation,
        *needs: str,
        doubt: str = "",
    ) -> Callable[[Callable[[Any], None]], Case]:
        """Make a function a case; its docstring is the words."""

        def decorate(run: Callable[[Any], None]) -> Case:
            return Case(id, who, level, run.__doc__ or "", breaks, run, needs, doubt)

        return decorate

    return make


server, client, arrow = _maker("server"), _maker("client"), _maker("arrow")


def rows(
    make: _Maker,
    level: str,
    breaks: Mutation,
    *needs: str,
    table: Mapping[str, tuple[Any, ...]],
    doubt: str = "",
) -> Callable[[Callable[..., None]], tuple[Case, ...]]:
    """Make one function several cases.

    Args:
        make: `server`, `client` or `arrow`.
        level: the level of the rows that have none of their own.
        breaks: the fault of the rows that have none of their own.
        needs: of all rows.
        table: id -> (words, arguments of the function); the last ones may be a level, a fault.
        doubt: of all rows.
    """

    def decorate(run: Callable[..., None]) -> tuple[Case, ...]:
        return tuple(row(run, name, *cells) for name, cells in table.items())

    def row(run: Callable[..., None], name: str, words: str, *cells: Any) -> Case:
        arguments, fault, kind = list(cells), breaks, level
        while arguments and (isinstance(arguments[-1], Mutation) or arguments[-1] in _LEVELS):
            last = arguments.pop()
            fault, kind = (last, kind) if isinstance(last, Mutation) else (fault, last)

        def judge(peer: Any) -> None:
            run(peer, *arguments)

        judge.__doc__ = words
        return make(name, kind, fault, *needs, doubt=doubt)(judge)

    return decorate


def select(cases: Iterable[Case], only: Sequence[str]) -> list[Case]:
    """Return the cases whose id begins with one of these, by whole numbers; all for none.

    Raises:
        UsageError: an id begins no case's.
    """
    known = list(cases)
    for one in only:
        if not any(_begins(case.id, one) for case in known):
            near = max((case.id for case in known), key=lambda name: _nearness(name, one))
            raise UsageError(f"there is no clause {one}; the nearest is {near} (see --list)")
    return [case for case in known if not only or any(_begins(case.id, one) for one in only)]


def _nearness(name: str, one: str) -> tuple[int, float]:
    """Rank an id: the longest common beginning counts first, because ids begin with sections."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(name, one, strict=False))
    return len([*same]), difflib.SequenceMatcher(None, name, one).ratio()


def _begins(name: str, part: str) -> bool:
    return name == part or (name.startswith(part) and name[len(part)] in "./")


def check(fact: bool, expected: str, found: object) -> None:
    """Judge a fact.

    Raises:
        Unexpected: it does not hold.
    """
    if not fact:
        found = shown(found) if isinstance(found, Frame) else text(found, bare=True)
        raise Unexpected(expected, found)
