"""Write the table of docs/server.md with the support for JMS clients.

    PYTHONPATH=tests python tests/interop/jms_table.py

It runs the suite of tests/interop/jms against our server and against ActiveMQ Artemis, and
prints what either does not give, with its words.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from support import jms
from support.brokers import running_broker
from support.server import running_server


def main() -> None:
    """Run both, write the table."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running_server(directory, **jms.options(directory)) as server:
            ours = jms.run_suite(server.port)
        with running_broker("artemis", directory) as server:
            artemis = jms.run_twice(server.port)
    for broker, answers in (("ours", ours), ("Artemis", artemis)):
        for case, answer in answers.items():
            if answer.gives != "yes":
                print(f"{broker}: {case}: {answer.gives}: {answer.says}")
    jms.write(jms.block(ours, artemis))


if __name__ == "__main__":
    main()
