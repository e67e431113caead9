"""Dead letters: the records of the run among those of others."""

from __future__ import annotations

from quiver_fast.cli.pair.dead_letters import first_fields


def test_only_records_of_the_run_count() -> None:
    records = b"1,1000,1010\n2,999,1010\nabc-3,1000,1010\n4,1001,1011\n"
    assert first_fields(records, 1000) == [b"1", b"4"]


def test_without_ids_the_send_time_tells() -> None:
    assert first_fields(b"1000,1010\n999,1010\n", 1000) == [b"1000"]
    assert first_fields(b"", 1000) == []
