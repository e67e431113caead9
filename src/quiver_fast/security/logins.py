"""Failed logins by client address: after some of them, each attempt waits before its judgement."""

from __future__ import annotations

from collections import OrderedDict

from quiver_fast.errors import SecurityError

FREE_FAILURES = 3
FIRST_DELAY = 100_000_000
LONGEST_DELAY = 5_000_000_000
FORGOTTEN_AFTER = 900_000_000_000
MOST_ADDRESSES = 1024
# Attempts of one address that wait at once: a client that opens many connections gains nothing.
MOST_WAITING = 16


def delay_after(failures: int) -> int:
    """Return how long the attempt after so many failures waits (ns)."""
    if failures < FREE_FAILURES:
        return 0
    doublings = min(failures - FREE_FAILURES, LONGEST_DELAY.bit_length())
    return min(FIRST_DELAY << doublings, LONGEST_DELAY)


class Record:
    """What is known of one address."""

    def __init__(self) -> None:
        self.failures = 0
        self.last = 0
        # Attempts that wait now; each has to lower it again.
        self.waiting = 0


class Logins:
    """The records of the addresses that failed last; all times are monotonic (ns)."""

    def __init__(self) -> None:
        self._records: OrderedDict[bytes, Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def delay(self, address: bytes, now: int) -> int:
        """Return how long an attempt of this address has to wait (ns)."""
        record = self._records.get(address)
        if record is not None and now - record.last >= FORGOTTEN_AFTER:
            del self._records[address]
            record = None
        return 0 if record is None else delay_after(record.failures)

    def wait(self, address: bytes) -> Record:
        """Count an attempt that waits, and return the record that counts it.

        Raises:
            SecurityError: too many attempts of the address wait.
        """
        record = self._records[address]
        if record.waiting >= MOST_WAITING:
            raise SecurityError("SASL: too many attempts of this address wait")
        record.waiting += 1
        return record

    def judged(self, address: bytes, passed: bool, now: int) -> None:
        """Note an attempt's result: a success clears the record."""
        if passed:
            self._records.pop(address, None)
            return
        record = self._records.setdefault(address, Record())
        record.failures += 1
        record.last = now
        self._records.move_to_end(address)
        if len(self._records) > MOST_ADDRESSES:
            self._records.popitem(last=False)
