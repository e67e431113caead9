"""A foreign implementation in a few lines, and how to run the wrappers with it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.documents import parsed

# It knows upstream's contract only. Through a server the messages of a pair go by a file in
# FAKE_QUEUES, one for each address; an arrow alone makes up what it receives. FAKE_SENDER
# and FAKE_RECEIVER say how to behave:
#   ok          transfer `count` messages (all connected ones for a receiver)
#   fail        write a line to standard error and exit 1 after ten messages
#   hang        transfer ten messages, then nothing, and die by SIGTERM
#   stubborn    the same, but ignore SIGTERM and SIGINT: FAKE_LOG has a file `signalled` then
#   drain       transfer slowly until SIGTERM or SIGINT, then end with exit 0
#   junk        ok, with lines between that are no records
#   silent      transfer nothing
#   segv        die by SIGSEGV after ten messages
#   busy        as a server: say that the port is in use, unless FAKE_FREE exists by now
#   deaf        as a server: do not listen
#   wait        ok, and end when a slow receiver has ended: outcomes are long in coming
#   slow        ok, a fifth of a second for each message; FAKE_LOG has a file `slow` at the end
#   burn        keep the CPU busy for a second, holding 64 MB, before ok
FAKE = r"""
import itertools, json, os, signal, socket, sys, time

if len(sys.argv) == 1:
    print("fake arrow 1.0")
    sys.exit()

args = dict(word.split("=", 1) for word in sys.argv[1:])
role = {"send": "sender", "receive": "receiver"}[args["operation"]]
mode = os.environ.get("FAKE_" + role.upper(), "ok")
with open(os.path.join(os.environ["FAKE_LOG"], role + ".json"), "a") as log:
    log.write(json.dumps([sys.argv[1:], os.environ.get("QUIVER_VERBOSE")]) + "\n")

def now():
    return int(time.time() * 1000)

def stop(*_):
    sys.exit(0)

if mode == "busy" and not os.path.exists(os.environ["FAKE_FREE"]):
    open(os.environ["FAKE_FREE"], "w").close()
    sys.exit("bind: Address already in use")
def ignore(*_):
    open(os.path.join(os.environ["FAKE_LOG"], "signalled"), "w").close()

if mode == "stubborn":
    signal.signal(signal.SIGTERM, ignore)
    signal.signal(signal.SIGINT, ignore)
if mode == "drain":
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
if mode == "deaf":
    time.sleep(60)
if mode != "drain" and mode != "stubborn":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
if mode == "burn":
    hog = bytearray(64 << 20)
    hog[::4096] = b"x" * len(hog[::4096])
    while time.process_time() < 1:
        pass

peer = None
if args["path"] == "quiver":
    address = args["host"], int(args["port"])
    if args["connection-mode"] == "server":
        listener = socket.create_server(address)
        peer = listener.accept()[0].makefile("rb")
    else:
        peer = socket.create_connection(address).makefile("wb")

queue = None
if peer is None and "FAKE_QUEUES" in os.environ:
    name = "-".join(args[key] for key in ("host", "port", "path")).replace("/", "-")
    queue = open(os.path.join(os.environ["FAKE_QUEUES"], name), "a+")
    queue.seek(0)

def queued():
    text = ""
    while True:
        text += queue.read()
        *lines, text = text.split("\n")
        yield from map(int, lines)
        if not lines:
            time.sleep(0.005)

def messages():
    if role == "receiver" and peer is not None:
        for line in peer:
            yield int(line)
        return
    if role == "receiver" and queue is not None:
        yield from itertools.islice(queued(), int(args["count"]) or None)
        return
    for n in range(int(args["count"]) or 10**9):
        if mode == "drain":
            time.sleep(0.001)
        yield now()

for n, sent in enumerate(() if mode == "silent" else messages()):
    if n == 10 and mode not in ("ok", "junk", "drain", "wait", "slow", "burn", "busy"):
        break
    if n == 1:
        # A run within one of its records' milliseconds would have no rate.
        time.sleep(0.002)
    if role == "sender":
        sys.stdout.write("%d,0\n" % sent)
        if queue is not None:
            queue.write("%d\n" % sent)
            queue.flush()
        if peer is not None:
            try:
                peer.write(b"%d\n" % sent)
                peer.flush()
            except ConnectionError:
                # The receiver drained first, and may have left messages unread.
                break
    else:
        if mode == "slow":
            time.sleep(0.2)
        sys.stdout.write("%d,%d\n" % (sent, now()))
    if n == 5 and mode == "junk":
        sys.stdout.write("junk\n")
    sys.stdout.flush()

if mode == "fail":
    sys.exit("fake: no such queue")
if mode == "segv":
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
slow = os.path.join(os.environ["FAKE_LOG"], "slow")
if mode == "slow":
    open(slow, "w").close()
while mode == "wait" and not os.path.exists(slow):
    time.sleep(0.01)
if mode in ("hang", "stubborn", "silent"):
    time.sleep(60)
"""


@dataclass
class Fake:
    """The fake implementation, its environment, and the arguments of its calls."""

    directory: Path
    environment: dict

    def command(self, tool, *words):
        # The bench takes lists of implementations instead. A test warms up only if it says so.
        chosen = ("--warm-up", "0") if tool == "bench" else ("--impl", "fake")
        if "--warm-up" in words:
            chosen = ()
        return [sys.executable, "-m", f"quiver_fast.cli.{tool}.command", *words, *chosen]

    def variables(self, tool, modes):
        queues = {} if tool == "arrow" else {"FAKE_QUEUES": str(self.directory / "queues")}
        return self.environment | queues | modes

    def run(self, tool, *words, timeout=90, **modes):
        return subprocess.run(
            self.command(tool, *words),
            env=self.variables(tool, modes),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, tool, *words, **modes):
        return subprocess.Popen(
            self.command(tool, *words),
            env=self.variables(tool, modes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def calls(self, role):
        """Return the arguments and QUIVER_VERBOSE of each call of one role."""
        lines = (self.directory / f"{role}.json").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(name="fake")
def fake_implementation(tmp_path):
    directory = tmp_path / "fake"
    directory.mkdir()
    (directory / "queues").mkdir()
    for kind in ("arrow", "server"):
        script = directory / f"quiver-{kind}-fake"
        script.write_text(f"#!{sys.executable}\n{FAKE if kind == 'arrow' else FAKE_SERVER}")
        script.chmod(0o755)
    environment = os.environ | {
        "QUIVER_IMPL_PATH": str(directory),
        "FAKE_LOG": str(directory),
        "FAKE_FREE": str(directory / "free"),
        "PYTHONUNBUFFERED": "1",
    }
    return Fake(directory, environment)


# FAKE_SERVER says how to behave: fail, stay (be ready until a signal), die (soon after being
# ready), or grudge (end with an error when told to end); by default it ends at once.
FAKE_SERVER = r"""
import json, os, signal, sys, time

if len(sys.argv) == 1:
    print("fake server 1.0")
    sys.exit()
args = dict(word.split("=", 1) for word in sys.argv[1:])
with open(os.path.join(os.environ["FAKE_LOG"], "server.json"), "a") as log:
    log.write(json.dumps([sys.argv[1:], os.environ.get("QUIVER_VERBOSE")]) + "\n")
if os.environ.get("FAKE_SERVER") == "fail":
    sys.exit("fake: no")
mode = os.environ.get("FAKE_SERVER")
if mode == "grudge":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
if mode in ("stay", "die", "grudge"):
    if args["ready-file"] != "-":
        with open(args["ready-file"], "w") as ready:
            ready.write("ready\n")
    time.sleep(0.3 if mode == "die" else 60)
"""


def load(directory, name):
    return parsed((Path(directory) / name).read_text())
