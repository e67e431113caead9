"""The entry points of the commands. Each imports its command when it is called."""

from __future__ import annotations

import signal
from functools import partial
from importlib import import_module

from quiver_fast.errors import EXIT_INTERRUPTED
from quiver_fast.standard_streams import prepare_streams

__all__ = ["analyze", "arrow", "bench", "conform", "fleet", "pair", "queue", "server"]


def _run(module: str) -> int:
    # The imports open files, which must not get the numbers of closed streams.
    prepare_streams()
    main = import_module(f"quiver_fast.cli.{module}.command").main
    try:
        # The start ends at Ctrl-C without a word. A signal that is ignored stays so.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code: int = main()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


analyze = partial(_run, "analyze")
arrow = partial(_run, "arrow")
bench = partial(_run, "bench")
conform = partial(_run, "conform")
fleet = partial(_run, "fleet")
pair = partial(_run, "pair")
queue = partial(_run, "queue")
server = partial(_run, "server")
