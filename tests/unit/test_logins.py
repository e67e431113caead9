"""Failed logins by address: the schedule of delays, and the bounds of what is remembered."""

from __future__ import annotations

import pytest

from quiver_fast.errors import SecurityError
from quiver_fast.security.logins import (
    FORGOTTEN_AFTER,
    MOST_ADDRESSES,
    MOST_WAITING,
    Logins,
    delay_after,
)

HERE = b"\x7f\0\0\1"
SECOND = 1_000_000_000


def failed(count: int, address: bytes = HERE) -> Logins:
    logins = Logins()
    for _ in range(count):
        logins.judged(address, False, 0)
    return logins


def test_the_delay_begins_after_three_failures_and_doubles_to_five_seconds() -> None:
    delays = [delay_after(failures) / SECOND for failures in range(11)]
    assert delays == [0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]
    assert delay_after(10**9) == 5 * SECOND


def test_only_the_address_that_failed_waits() -> None:
    logins = failed(4)
    assert logins.delay(HERE, 1) == SECOND // 5
    assert logins.delay(b"\x7f\0\0\2", 1) == 0


def test_a_success_clears_the_record() -> None:
    logins = failed(9)
    logins.judged(HERE, True, 1)
    assert logins.delay(HERE, 2) == 0
    assert len(logins) == 0


def test_a_record_expires() -> None:
    logins = failed(9)
    assert logins.delay(HERE, FORGOTTEN_AFTER - 1) == 5 * SECOND
    assert logins.delay(HERE, FORGOTTEN_AFTER) == 0
    assert len(logins) == 0


def test_the_addresses_that_failed_last_are_remembered() -> None:
    logins = failed(4)
    for number in range(3 * MOST_ADDRESSES):
        if number == MOST_ADDRESSES // 2:
            logins.judged(HERE, False, 1)
        logins.judged(b"%08d" % number, False, 1)
        assert len(logins) <= MOST_ADDRESSES
        assert (logins.delay(HERE, 2) > 0) == (number < 3 * MOST_ADDRESSES // 2 - 1)


def test_few_attempts_of_one_address_wait_at_once() -> None:
    logins = failed(4)
    records = [logins.wait(HERE) for _ in range(MOST_WAITING)]
    with pytest.raises(SecurityError, match="too many"):
        logins.wait(HERE)
    records[0].waiting -= 1
    assert logins.wait(HERE) is records[0]
