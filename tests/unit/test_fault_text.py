"""The reader of `--fault`."""

import argparse

import pytest

from quiver_fast.cli.pair.fault_text import Fault, fault_text, read_fault


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10s kill 5s", Fault("", 10, "kill", 5)),
        ("10 kill", Fault("", 10, "kill")),
        ("1m30s term 500ms", Fault("", 90, "term", 0.5)),
        ("0s stop 1", Fault("", 0, "stop", 1)),
        ("10s cut", Fault("", 10, "cut")),
        ("10s cut 50%", Fault("", 10, "cut", share=0.5)),
        ("10s  refuse  5s", Fault("", 10, "refuse", 5)),
        ("250ms freeze 5s 0.1%", Fault("", 0.25, "freeze", 5, share=0.001)),
        ("10s half 5s 100%", Fault("", 10, "half", 5)),
        ("10s delay 50ms 5s", Fault("", 10, "delay", 5, 0.05)),
        ("10s throttle 1m 5s 10%", Fault("", 10, "throttle", 5, 1_000_000, 0.1)),
        ("10s throttle 500 5s", Fault("", 10, "throttle", 5, 500)),
        ("1s run 'systemctl restart x'", Fault("", 1, "run", command="systemctl restart x")),
        ("1s run systemctl restart x", Fault("", 1, "run", command="systemctl restart x")),
        ("1s run echo 'a b' | wc", Fault("", 1, "run", command="echo 'a b' | wc")),
        ("1s run echo 'a", Fault("", 1, "run", command="echo 'a")),
    ],
)
def test_a_fault_is_read(text: str, found: Fault) -> None:
    fault = read_fault(text)
    assert fault == Fault(text, *list(vars(found).values())[1:])
    assert fault_text(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (text, f"'{text}' is not 'WHEN KIND ...', such as '10s kill 5s'; the kinds are kill, ")
        for text in ("", "10s", "kill", "kill 10s", "10s burn", "soon kill", "10S kill", "-1s cut")
    ]
    + [
        ("10s kill now", "'10s kill now' is not 'WHEN kill [UNTIL]'"),
        ("10s kill 5s 50%", "'10s kill 5s 50%' is not 'WHEN kill [UNTIL]'"),
        ("10s stop", "'10s stop' is not 'WHEN stop UNTIL'"),
        ("10s stop 0s", "'10s stop 0s' is not 'WHEN stop UNTIL'"),
        ("10s cut 5s", "'10s cut 5s' is not 'WHEN cut [SHARE]'"),
        ("10s cut 0%", "'10s cut 0%' is not 'WHEN cut [SHARE]'"),
        ("10s cut 101%", "'10s cut 101%' is not 'WHEN cut [SHARE]'"),
        ("10s delay 5s", "'10s delay 5s' is not 'WHEN delay DELAY UNTIL [SHARE]'"),
        ("10s throttle 1g 5s", "'10s throttle 1g 5s' is not 'WHEN throttle RATE UNTIL [SHARE]'"),
        ("481h cut", "'481h cut': no time may be above 480h"),
        ("1s stop 481h", "'1s stop 481h': no time may be above 480h"),
        ("1s delay 481h 1s", "'1s delay 481h 1s': no time may be above 480h"),
        ("10s run", "'10s run' is not 'WHEN run COMMAND'"),
    ],
)
def test_a_text_that_is_no_fault_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        fault_text(text)
    assert str(caught.value).startswith(message)
