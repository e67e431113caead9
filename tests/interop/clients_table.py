"""Write the table of docs/server.md that says what clients other than JMS are given.

    PYTHONPATH=tests python tests/interop/clients_table.py

It runs the suites of go-amqp, python-qpid-proton and rhea against our server and against
ActiveMQ Artemis, and prints what either does not give, with its words.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from support import client_suites
from support.brokers import running_broker
from support.server import running_server
from support.suites import Answer, commands, run_cases


def run_all(port: int, turns: int) -> dict[str, dict[str, Answer]]:
    """Run each client's suite, and again up to ``turns`` times for cases that failed at first."""
    answers: dict[str, dict[str, Answer]] = {}
    for client, command in commands().items():
        answers[client] = run_cases([*command, str(port)])
        for _ in range(turns - 1):
            for case, answer in run_cases([*command, str(port)]).items():
                if answer.gives == "yes":
                    answers[client][case] = answer
    return answers


def main() -> None:
    """Run both, write the table."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running_server(directory, store=directory / "store") as server:
            ours = run_all(server.port, 1)
        with running_broker("artemis", directory) as server:
            artemis = run_all(server.port, 2)
    for broker, answers in (("ours", ours), ("Artemis", artemis)):
        for client, cases in answers.items():
            for case, answer in cases.items():
                if answer.gives != "yes":
                    print(f"{broker}: {client}: {case}: {answer.gives}: {answer.says}")
    client_suites.write(client_suites.block(ours, artemis))


if __name__ == "__main__":
    main()
