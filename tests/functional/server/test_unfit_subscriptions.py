"""Subscriptions whose attach has an answer that the peer's max-frame-size does not take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server import Server, running_server

from quiver_fast.conform.wire.codec import Value
from tests.functional.server.test_subscriptions import NOT_FOUND, Client, bodies, publish

TOO_SMALL = "amqp:frame-size-too-small"


@pytest.fixture(scope="module", params=[True, False], ids=["stored", "not stored"])
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with a store, and one without."""
    folder: Path = tmp_path_factory.mktemp("either")
    with running_server(folder, **({"store": folder / "store"} if request.param else {})) as server:
        yield server


def selecting(size: int) -> dict[str, Value]:
    """Return a filter set with a selector of about ``size`` bytes."""
    key = Value("symbol", "apache.org:selector-filter:string")
    text = Value("string", f"a = '{'b' * size}'")
    return {"filter": Value("map", ((key, Value("described", (key, text))),))}


@pytest.mark.parametrize("wanted", [(), ("shared",)])
@pytest.mark.parametrize("size", [1, 80, 140, 160, 180, 200, 240, 300, 1200])
def test_none_is_made_whose_answer_does_not_fit(
    either: Server, address: str, size: int, wanted: tuple[str, ...]
) -> None:
    """Our attach, which repeats the filter, may have 512 bytes."""
    topic, name = f"topic/{address}"[:60], f"made-{size}-{len(wanted)}"
    with Client(either, max_frame_size=512) as client:
        answer = client.subscribe(topic, name, *wanted, **selecting(size))
        made = answer.fields.get("source") is not None
        assert made == (size < 100) or 100 < size < 300
        if not made:
            assert client.refusal() == TOO_SMALL
    with Client(either) as client:
        found = client.look_up(name).fields.get("source")
        assert (found is not None) == made
        if made:
            client.detach(closed=True)
        else:
            assert client.refusal() == NOT_FOUND


@pytest.mark.parametrize("in_use", [True, False])
@pytest.mark.parametrize("size", [None, 1200])
def test_one_is_left_alone_by_an_attach_that_does_not_fit(
    either: Server, address: str, in_use: bool, size: int | None
) -> None:
    """With other terms it would replace the subscription, with the same it would steal it."""
    topic = f"topic/{address}"
    first: dict[str, Any] = {} if size else selecting(1200)
    second = selecting(1200)
    with Client(either) as owner:
        owner.subscribe(topic, "left-alone", **first)
        if not in_use:
            owner.detach(closed=False)
        with Client(either, max_frame_size=512) as client:
            client.subscribe(topic, "left-alone", **second)
            assert client.refusal() == TOO_SMALL
        if not in_use:
            owner.subscribe(topic, "left-alone", **first)
        if size:
            publish(either, topic, 1)
            assert owner.take(1) == bodies(1)
        owner.send("detach", handle=owner.handles - 1, closed=True)
        assert owner.expect("detach").condition is None, "the link was stolen"
