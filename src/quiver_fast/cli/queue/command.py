"""`quiver-queue`: show, follow, check and extend queues, in a directory or behind csp."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from quiver_fast import __version__
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_completion_option,
    report_warning,
    require_output,
    run_command,
)
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.quantities import duration
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, OutputError, UsageError, one_line, visible
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.directory import is_queue
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import FileReport, Report, verify_queue
from quiver_fast.remote import client
from quiver_fast.remote.client import Entry, Value
from quiver_fast.remote.wire.textwire import stored_form, text_check
from quiver_fast.schemas import marked
from quiver_fast.words import counted

_NAME = "quiver-queue"

_DESCRIPTION = """\
Show, follow, check and extend queues of the Chronicle Queue format.

'quiver-queue' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""

_EPILOG = """\
operations:
  dump                  Print the entries and end
  tail                  Print new entries as they come, until interrupted
  verify                Check the files of a directory, and change nothing
  append                Append VALUEs, or the lines of standard input, and print
                        the index of each

queues:
  DIR                   A queue's directory; append needs it for itself, and makes
                        one that is not there
  csp://HOST[:PORT]/NAME
                        A queue behind a server; the default port is 9876

  An entry is printed as its index, a tab, and its value: text wire as it is,
  raw bytes as '!!binary' and base64. A value to append has the same form.
  With --json an entry is {"index": N, "text": VALUE} or {"index": N, "base64":
  BYTES}, an appended one {"index": N}, and verify prints one document.

example usage:
  $ quiver-queue append csp://localhost/orders '{ item: nails, count: 100 }'
  $ quiver-queue dump --json /var/lib/queues/orders
  $ quiver-queue tail --reconnect 5m csp://localhost/orders
  $ quiver-queue verify /var/lib/queues/orders

exit codes:
  0 success, 1 failure (verify: a fault was found; dump, tail: damage was skipped),
  2 usage error, 130 interrupted
"""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|//.*@", re.DOTALL)
_RAW_HEAD = 6
_BINARY = "!!binary "
_TICK = 0.1
_LONG_POLL = 10.0


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = make_parser().parse_args(argv)
    if args.values and args.operation != "append":
        raise UsageError(f"{args.operation} takes no values (see {_NAME} --help)")
    if args.start is not None and args.operation in ("append", "verify"):
        raise UsageError(f"{args.operation} takes no --from (see {_NAME} --help)")
    if args.reconnect and not (args.operation == "tail" and _is_remote(args.queue)):
        raise UsageError(f"--reconnect is for tail and a csp URL (see {_NAME} --help)")
    if _URL.match(args.queue) and not _is_remote(args.queue):
        # Appending would make a directory of that name, which may have a password in it.
        raise UsageError(f"'{args.queue}' is neither a directory nor a csp URL")
    operations: dict[str, Callable[[argparse.Namespace], int]] = {
        "dump": _dump,
        "tail": _tail,
        "verify": _verify,
        "append": _append,
    }
    return operations[args.operation](args)


def _is_remote(queue: str) -> bool:
    return queue.startswith("csp:")


def _show(entry: Entry, as_json: bool) -> None:
    raw = isinstance(entry.value, bytes)
    text = entry.value if isinstance(entry.value, str) else _binary(entry.value)
    if not as_json:
        print(f"{entry.index}\t{visible(text)}")
        return
    kind = "base64" if raw else "text"
    content = text.removeprefix(_BINARY).strip('"') if raw else text
    print(json.dumps({"index": entry.index, kind: content}))


def _binary(content: bytes) -> str:
    return _BINARY + (base64.b64encode(content).decode() or '""')


def _value(entry: bytes) -> Value:
    """Return the value of a file's entry, text or bytes by the same rule as the server's (A.6)."""
    if entry[:1] == b"\x82" and entry[5:6] == b"\x8a" and (
        int.from_bytes(entry[1:5], "little") == len(entry) - _RAW_HEAD + 1
    ):  # fmt: skip
        return entry[_RAW_HEAD:]
    text = entry.removeprefix(b"\n")
    try:
        return text.decode() if stored_form(text) == text else entry
    except ValueError:
        return entry


# ---- reading -------------------------------------------------------------------------


class _Damage:
    """Shows damage in files. `dump` and `tail` go on after it, and fail at their end."""

    def __init__(self) -> None:
        self.exit_code = EXIT_OK

    def tell(self, path: Path, offset: int, reason: str) -> None:
        """Show the damage between the entries that are before and after it."""
        sys.stdout.flush()
        report_warning(_NAME, f"{path}: at {offset}: {reason}")
        self.exit_code = EXIT_FAILURE


def _dump(args: argparse.Namespace) -> int:
    require_output()
    damage = _Damage()
    if _is_remote(args.queue):
        entries = _remote_entries(args.queue, args.start)
    else:
        entries = _file_entries(args.queue, args.start, args.quiet, damage)
    for entry in entries:
        _show(entry, args.json)
    # Notice here, and not at the interpreter's end, that the reader of our output is gone.
    sys.stdout.flush()
    return damage.exit_code


def _remote_entries(url: str, start: int | None) -> Iterator[Entry]:
    with client.Queue(url) as queue, queue.tailer(start, create=False) as tailer:
        while entries := tailer.read():
            yield from entries


def _file_entries(
    directory: str, start: int | None, quiet: bool, damage: _Damage
) -> Iterator[Entry]:
    tailer = _open_files(directory, damage)
    tailer.move_to(start or 0)
    cycles = tailer.cycles()
    with Progress("Reading", not quiet) as progress:
        while (found := tailer.read()) is not None:
            progress.update(_done(cycles, found[0]), len(cycles))
            yield Entry(found[0], _value(found[1]))


def _done(cycles: list[int], index: int) -> int:
    return sum(cycle < index >> 32 for cycle in cycles)


def _open_files(directory: str, damage: _Damage | None = None) -> Tailer:
    if not Path(directory).is_dir():
        raise UsageError(f"'{directory}' is neither a directory nor a csp URL")
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise OutputError(f"{directory}: {error.strerror}") from None
    if not is_queue(names):
        raise UsageError(
            f"'{directory}' is not a queue: it has neither metadata.cq4t nor a .cq4 file"
        )
    tailer = Tailer(directory, damage.tell if damage else None)
    tailer.check_forms()
    return tailer


def _tail(args: argparse.Namespace) -> int:
    require_output()
    if not _is_remote(args.queue):
        return _tail_files(args)
    with client.Queue(args.queue) as queue:
        tailer = queue.tailer(args.start, reconnect=args.reconnect, create=False)
        if args.start is None:
            tailer.index = tailer.end
        while True:
            for entry in tailer.read(wait=_LONG_POLL):
                _show(entry, args.json)
            sys.stdout.flush()


def _tail_files(args: argparse.Namespace) -> int:
    damage = _Damage()
    try:
        _follow_files(args, damage)
    except KeyboardInterrupt:
        if damage.exit_code == EXIT_OK:
            raise
    return damage.exit_code


def _follow_files(args: argparse.Namespace, damage: _Damage) -> NoReturn:
    import time

    tailer = _open_files(args.queue, damage)
    if args.start is None:
        cycles = tailer.cycles()
        # An index after the last entry means the end.
        tailer.move_to(((cycles[-1] + 1) << 32) - 1 if cycles else 0)
    else:
        tailer.move_to(args.start)
    while True:
        found = tailer.read()
        if found is None:
            sys.stdout.flush()
            time.sleep(_TICK)
        else:
            _show(Entry(found[0], _value(found[1])), args.json)


# ---- checking ------------------------------------------------------------------------


def _verify(args: argparse.Namespace) -> int:
    if _is_remote(args.queue):
        raise UsageError("verify needs the queue's directory, not a URL")
    _open_files(args.queue)
    with Progress("Verifying", not args.quiet) as progress:
        report = verify_queue(args.queue, progress.update)
    faults = [f"{found.path.name}: at {found.offset}: {found.text}" for found in report.deviations]
    aside = sorted(path.name for path in Path(args.queue).glob("*.damaged"))
    faults += [f"{name}: put aside by a recovery" for name in aside]
    if args.json:
        files = [_described(file, report) for file in report.files]
        document = {"entries": report.entries, "files": files, "faults": faults}
        print(json.dumps(marked("queue-verification", {"queue": args.queue} | document)))
    else:
        found = f"{counted(report.entries, 'entry')} in {counted(len(report.files), 'file')}"
        print(f"{found}, {counted(len(faults), 'fault')}")
        for fault in faults:
            print(f"fault: {one_line(fault)}")
    return EXIT_FAILURE if faults else EXIT_OK


def _described(file: FileReport, report: Report) -> dict[str, object]:
    """Return a file's report for --json."""
    faults = [f"at {found.offset}: {found.text}" for found in report.deviations
              if found.path == file.path]  # fmt: skip
    return {"name": file.path.name, "entries": file.entries, "size": file.size,
            "ended": file.ended, "faults": faults}  # fmt: skip


# ---- appending -----------------------------------------------------------------------


def _append(args: argparse.Namespace) -> int:
    values = (_parse(value) for value in args.values or _lines(sys.stdin))
    if _is_remote(args.queue):
        with client.Queue(args.queue) as queue, queue.appender() as appender:
            for index in appender.submit_all(values):
                _show_index(index, args)
        return EXIT_OK
    with closing(Appender(args.queue, text_check=text_check())) as local:
        for value in values:
            index = _append_locally(local, value)
            _show_index(index, args)
    return EXIT_OK


def _lines(text: Iterable[str]) -> Iterator[str]:
    """Yield lines without line ends, and without a byte-order mark before the first one."""
    mark = "\ufeff"
    for line in text:
        yield line.removeprefix(mark).rstrip("\r\n")
        mark = ""


def _parse(text: str) -> Value:
    """Return the value of a word or line; refuse values that a server would refuse."""
    if text.startswith(_BINARY):
        try:
            return base64.b64decode(text.removeprefix(_BINARY).strip().strip('"'), validate=True)
        except ValueError:
            raise UsageError(f"the text after !!binary is not base64: '{text}'") from None
    try:
        # Bytes that are not of the locale's encoding are taken as they are.
        return stored_form(text.encode(errors="surrogateescape")).decode()
    except ValueError as error:
        raise UsageError(f"'{text}' is not a value: {error}") from None


def _append_locally(appender: Appender, value: Value) -> int:
    if isinstance(value, bytes):
        return appender.append_raw(value)
    # A first byte with the top bit set would mean binary wire (A.6).
    return appender.append_text(value if value[0] < "\x80" else f"\n{value}")


def _show_index(index: int, args: argparse.Namespace) -> None:
    if not args.quiet:
        print(json.dumps({"index": index}) if args.json else index)


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("operation", metavar="OPERATION", choices=["dump", "tail", "verify", "append"],
        help="dump, tail, verify or append")  # fmt: skip
    add("queue", metavar="QUEUE", help="A directory, or csp://HOST[:PORT]/NAME")
    add("values", metavar="VALUE", nargs="*", default=[], help="The values to append")
    add("--from", dest="start", metavar="INDEX", type=_index,
        help="dump, tail: begin with INDEX (default: dump the first, tail the next)")  # fmt: skip
    add("--reconnect", metavar="TIME", type=duration, default=0,
        help="tail: when the server is lost, try again for TIME, such as 5m")  # fmt: skip
    add("--json", action="store_true", help="Print one JSON object per line")
    add("--quiet", action="store_true", help="Print no progress and no indexes")
    add_completion_option(parser)
    add("--version", action="version", version=f"%(prog)s {__version__}",
        help="Print the version and exit")  # fmt: skip
    return parser


def _index(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is not an index")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
