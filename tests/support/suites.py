"""Suites of other clients: one process runs all its cases, and prints a line of JSON for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from support.arrows import COMMANDS, INTEROP

SECONDS = 300.0


class Answer(NamedTuple):
    """A server's answer to a case: yes, refused, no or late, and its words."""

    gives: str
    says: str


def go_suite() -> Path:
    """Return go-amqp's suite: in $GO_AMQP_HOME, or in the folder of install_peers.sh."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("GO_AMQP_HOME") or cache / "quiver-fast" / "go-amqp") / "suite"


def commands() -> dict[str, list[str]]:
    """Return the command of each client's suite, without the port."""
    peers = INTEROP / "peers"
    return {
        "go_amqp": [str(go_suite())],
        "proton": [sys.executable, str(peers / "proton_suite.py")],
        "rhea": [COMMANDS["rhea"][0], str(peers / "rhea_suite.js")],
    }


def run_cases(command: list[str]) -> dict[str, Answer]:
    """Run a suite, and return its answers by the name of the case."""
    end = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    answers = {}
    for line in end.stdout.splitlines():
        fields = json.loads(line)
        answers[fields["case"]] = Answer(fields["gives"], fields["says"])
    return answers
