"""The suite over JMS of tests/interop/jms: its cases, its run, and its table in docs/server.md."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from support.arrows import INTEROP
from support.suites import Answer, run_cases

DOCUMENT = INTEROP.parents[1] / "docs" / "server.md"
BEGIN = "<!-- jms: written by tests/interop/jms_table.py -->\n"
END = "<!-- jms: end -->\n"
_ROW = re.compile(r"\| `(\w+)` \| (.*) \| (\w+) \| (\w+) \|")
_CASE = re.compile(r"@Case\((.*?)\)\n    static void (\w+)\(", re.DOTALL)


class Row(NamedTuple):
    """A case in the table of docs/server.md."""

    expects: str
    ours: str
    artemis: str


def home() -> Path:
    """Return its folder: $QPID_JMS_HOME, or that of install_peers.sh."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("QPID_JMS_HOME") or cache / "quiver-fast" / "qpid-jms")


def _cases() -> dict[str, str]:
    """Return the expectation of each case, by its name, from its source."""
    main = (INTEROP / "jms" / "JmsSuite.java").read_text()
    cases = {}
    for name in re.findall(r"(\w+Cases)\.class", main):
        for words, case in _CASE.findall((INTEROP / "jms" / f"{name}.java").read_text()):
            assert case not in cases, f"two cases are called {case}"
            cases[case] = "".join(re.findall(r'"(.*?)"', words))
    return cases


CASES = _cases()
"""The words of JMS, by the name of the case, in the order of the table."""


def options(directory: Path) -> dict[str, object]:
    """Return the keys for all features of our server."""
    return {"store": directory / "store", "priorities": "*"}


def run_suite(port: int, *cases: str) -> dict[str, Answer]:
    """Run all cases, or these, in one Java process; return the broker's answers."""
    # The second compiler does not pay for short runs.
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    path = f"{home() / 'classes'}:{home() / 'lib'}/*"
    return run_cases([*java, "-cp", path, "JmsSuite", str(port), *cases])


def run_twice(port: int) -> dict[str, Answer]:
    """Run the suite, and repeat the cases that another broker fails.

    So its own races, such as an unanswered drain, do not count as missing features.
    """
    answers = run_suite(port)
    doubtful = [case for case, answer in answers.items() if answer.gives != "yes"]
    return answers | (run_suite(port, *doubtful) if doubtful else {})


def block(ours: dict[str, Answer], artemis: dict[str, Answer]) -> str:
    """Return the table of two runs, with its marks."""
    lines = ["| Case | Rule of JMS | ours | Artemis 2.40 |", "|---|---|---|---|"]
    for name, expects in CASES.items():
        lines.append(f"| `{name}` | {expects} | {ours[name].gives} | {artemis[name].gives} |")
    return BEGIN + "\n".join(lines) + "\n" + END


def documented() -> dict[str, Row]:
    """Return the rows of the table, by the name of the case."""
    text = DOCUMENT.read_text()
    table = text[text.index(BEGIN) : text.index(END)]
    return {name: Row(*cells) for name, *cells in _ROW.findall(table)}


def write(table: str) -> None:
    """Put a table in the place of the old one."""
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text[: text.index(BEGIN)] + table + text[text.index(END) + len(END) :])
