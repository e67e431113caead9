"""The programs that the documents show do what the documents say."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from proton import Delivery, Message
from support.engine_client import EngineClient
from support.processes import free_port, run
from support.remote import serving
from support.server import running_server

ROOT = Path(__file__).parents[3]


def program(document: str, beginning: str, port: int) -> list[str]:
    """Return the command of a document's Python example, aimed at a server of ours."""
    text = (ROOT / document).read_text(encoding="utf-8")
    (example,) = re.findall(rf"(?m)^\n    {re.escape(beginning)}\n(?:(?:    .*)?\n)*", text)
    return [
        sys.executable,
        "-c",
        textwrap.dedent(example).replace("localhost", f"localhost:{port}"),
    ]


def test_the_client_of_the_queues(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        ended = run(program("docs/queues.md", "from quiver_fast.remote.client import Queue", port))
    assert (ended.code, ended.stderr) == (0, "")
    assert re.fullmatch(
        r"\[Entry\(index=\d+, value='\{ item: nails, count: 100 \}'\)\]\n", ended.stdout
    )


def test_how_to_decode_an_amqp_message(tmp_path: Path) -> None:
    port = free_port()
    with running_server(tmp_path, store=tmp_path / "store", csp_port=port) as server:
        with EngineClient(server.port) as client:
            data = bytes(Message(id="one", body="content", durable=True).encode())
            delivery = client.send(client.sender("jobs"), data)
            client.until(lambda: delivery.remote_state == Delivery.ACCEPTED)
        ended = run(program("docs/queues.md", "import proton", port))
    assert (ended.code, ended.stderr) == (0, "")
    assert re.fullmatch(r"\d+ one content\n", ended.stdout)
