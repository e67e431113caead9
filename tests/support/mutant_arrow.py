"""An arrow that runs ours with one fault in its arguments, its lines or its exit code.

Its arguments: the kind of the fault, its name and value as JSON, a file that tells that the fault
was made, and the arguments of an arrow.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

ORDER = [
    "directory", "connection-mode", "operation", "host", "port", "path", "count", "body-size",
    "credit-window",
]  # fmt: skip


def main() -> int:
    """Run the arrow with the fault."""
    fault, marker, *words = sys.argv[1:]
    kind, name, fields = json.loads(fault)
    named = (
        dict(zip(ORDER, words, strict=True))
        if len(words) == len(ORDER) and "=" not in words[0]
        else dict(word.split("=", 1) for word in words)
    )
    changed = list(words)
    if kind == "word":
        values = {**named, name: fields["value"]}
        changed = [
            value if name in ORDER and words[0] == named.get("directory") else f"{key}={value}"
            for key, value in values.items()
            if value is not None
        ]
    command = [sys.executable, "-m", "quiver_fast.arrow.main", *changed]
    if changed != words:
        # Before it runs: it may be killed.
        Path(marker).touch()
    end = subprocess.run(command, stdout=subprocess.PIPE if kind == "output" else None)
    happened, code = False, end.returncode
    if kind == "output":
        told = end.stdout.decode()
        mutated = re.sub(name, fields["repl"], told, flags=re.MULTILINE)
        sys.stdout.write(mutated)
        happened = mutated != told
    elif kind == "exits":
        happened, code = code != int(name), int(name)
    elif kind == "again":
        with socket.create_connection((named["host"], int(named["port"]))):
            time.sleep(0.3)
        happened = True
    if happened:
        Path(marker).touch()
    return code


if __name__ == "__main__":
    sys.exit(main())
