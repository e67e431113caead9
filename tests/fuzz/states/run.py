"""The fuzzer of states: peers that do anything, and a server that must go on.

    python tests/fuzz/states/run.py --time 600 [NAME=VALUE ...]
    python tests/fuzz/states/run.py --seed 4711 [--steps 0,3,4] [NAME=VALUE ...]

`make fuzz TARGET=states TIME=600` runs it with servers under sanitizers, for which the variables
are. A seed decides on the server's options, the peers, and all of their steps. After each write,
an honest connection speaks to the server twice; so the server has read the write and has
written its answers before the next step. A finding is replayed on a server of its own and made
shorter. Then its frames are printed, and the command that replays them.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tests.fuzz.states.play import play, scenario  # noqa: E402
from tests.fuzz.states.serving import BATCH, SETUPS, Finding, Serving, setup_of  # noqa: E402

__all__ = ["BATCH", "SETUPS", "Fuzzer"]

SHRINK_SECONDS = 15.0


class Fuzzer:
    """Runs scenarios, and keeps one finding of each kind."""

    def __init__(self, environment: dict[str, str], say: Callable[[str], None] = print) -> None:
        self.environment = environment
        self.say = say
        self.found: dict[str, int] = {}
        self.began = time.monotonic()
        self.count = 0

    def batch(self, first: int, count: int = BATCH, until: float = float("inf")) -> None:
        """Run some seeds against one server, or several if it dies."""
        seed = first
        while seed < first + count and time.monotonic() < until:
            serving = Serving(setup_of(seed), self.environment)
            played = []
            found: Finding | None = None
            while seed < first + count and found is None and time.monotonic() < until:
                found, trace = play(serving, seed, str(seed), ignored=self.found)
                played.append(seed)
                self.count += 1
                seed += 1
                if found is not None:
                    self.report(found, played, trace)
            ended = serving.end()
            if ended is not None and found is None:
                self.report(ended, played, "", at_end=True)

    def report(
        self, found: Finding, played: list[int], trace: str, *, at_end: bool = False
    ) -> None:
        """Replay a finding of a new kind, make it shorter, and print it."""
        if found.kind in self.found:
            return
        self.found[found.kind] = played[-1]
        seconds = time.monotonic() - self.began
        self.say(f"FOUND after {seconds:.0f} s, seed {played[-1]} ({setup_of(played[-1]).name}): "
                 f"{found.kind}\n{found.text[-6000:]}")  # fmt: skip
        if at_end:
            culprit = self.search(found, played)
            if culprit is None:
                self.say(f"at the end of seeds {played[0]} to {played[-1]}; none alone does it")
                return
            played = [culprit]
        self.shrink(found, played[-1], trace, at_end)

    def search(self, found: Finding, played: list[int]) -> int | None:
        """Return the seed after which the server's end is wrong; None if no single one is."""
        while len(played) > 1:
            half = played[: len(played) // 2]
            serving = Serving(setup_of(half[0]), self.environment)
            for seed in half:
                play(serving, seed, str(seed))
            played = half if serving.end() is not None else played[len(half) :]
        serving = Serving(setup_of(played[0]), self.environment)
        play(serving, played[0], str(played[0]))
        return played[0] if serving.end() is not None else None

    def shrink(self, found: Finding, seed: int, trace: str, at_end: bool) -> None:
        """Take steps away while the finding stays; print what is left."""
        until = time.monotonic() + SHRINK_SECONDS
        with self.replays(seed, at_end) as replay:
            again, _ = replay(None)
            if again is None:
                self.say(f"does not repeat alone; the frames were\n{trace}")
                return
            steps = list(range(len(scenario(seed)[1])))
            size = len(steps) // 2
            while size and time.monotonic() < until:
                for at in range(len(steps) - size, -1, -size):
                    fewer = steps[:at] + steps[at + size :]
                    hit, frames = replay(set(fewer))
                    if hit is not None and hit.same(found):
                        steps, trace = fewer, frames
                    if time.monotonic() > until:
                        break
                size //= 2
        kept = ",".join(map(str, steps))
        self.say(f"replay: make fuzz TARGET=states SEED={seed} STEPS={kept}\n{trace}\n")

    @contextlib.contextmanager
    def replays(
        self, seed: int, at_end: bool
    ) -> Iterator[Callable[[set[int] | None], tuple[Finding | None, str]]]:
        """Give a function that runs steps of a seed, on a fresh server if the last one died."""
        serving: Serving | None = None
        tries = 0
        ignored = {kind for kind, of in self.found.items() if of != seed}

        def replay(keep: set[int] | None) -> tuple[Finding | None, str]:
            nonlocal serving, tries
            tries += 1
            serving = serving or Serving(setup_of(seed), self.environment)
            found, trace = play(serving, seed, f"{seed}-{tries}", keep, ignored)
            if found is not None or at_end:
                ended, serving = serving.end(), None
                found = found or ended
            return found, trace

        try:
            yield replay
        finally:
            if serving is not None:
                serving.end()


def main() -> int:
    """Fuzz, or replay a seed; return how many kinds of findings there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps")
    parser.add_argument("environment", nargs="*")
    words = parser.parse_args()
    environment = dict(each.split("=", 1) for each in words.environment)
    if words.seed is not None:
        return replay(words.seed, words.steps, environment)
    fuzzer = Fuzzer(environment, lambda text: print(text, flush=True))
    until = time.monotonic() + words.time
    first = words.first
    while time.monotonic() < until:
        fuzzer.batch(first, until=until)
        first += BATCH
        print(f"{time.monotonic() - fuzzer.began:.0f} s: {fuzzer.count} scenarios, "
              f"{len(fuzzer.found)} kinds of findings", flush=True)  # fmt: skip
    for kind, seed in fuzzer.found.items():
        print(f"seed {seed}: {kind}")
    return min(len(fuzzer.found), 100)


def replay(seed: int, steps: str | None, environment: dict[str, str]) -> int:
    """Run one seed, print its frames and what was found."""
    serving = Serving(setup_of(seed), environment)
    keep = set(map(int, steps.split(","))) if steps else None
    found, trace = play(serving, seed, str(seed), keep)
    ended = serving.end()
    found = found or ended
    print(trace)
    print(found.text if found else "nothing found")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
