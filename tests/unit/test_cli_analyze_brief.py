"""The findings of an analysis as rows of a terminal."""

from quiver_fast.analysis.figures.statistics import OF_STEADY, OF_WHOLE
from quiver_fast.cli.arrow.terminal import finding_rows

SHORT = {"figures_of": OF_WHOLE, "verdict": "too short to tell", "reason": "2 whole seconds",
         "message_rate": None, "latency": None}  # fmt: skip
NOTHING = {"steady_state": SHORT, "stalls": [], "clock": None, "coordinated_omission": None}


def section(*values):
    ranks = ("50", "99", "99.9", "100")
    return {"unit": "us", "percentiles": dict(zip(ranks, values, strict=True))}


def rows_of(analysis):
    raw = {"results": {"message_rate": 9.0}, "latency": section(1.0, 2.0, 3.0, 4.0)}
    return finding_rows({"sender": None, "receiver": raw, "analysis": analysis})


def test_a_run_without_findings_has_its_state():
    assert rows_of(NOTHING) == [("State", "too short to tell: 2 whole seconds")]


def test_each_finding_has_a_row():
    steady = {
        "figures_of": OF_STEADY, "seconds": 7, "warm_up_seconds": 2, "ramp_down_seconds": 0,
        "message_rate": 20_001.4, "detectable_step": None, "first_second": 0, "last_second": 6,
        "verdict": "steady", "reason": None, "rule": "any",
        "latency": section(44.0, 4_680.0, 7_140.0, 9_400.0),
    }  # fmt: skip
    clock = {"unit": "us", "offset_at_least": None, "offset_at_most": 11.0, "drift_ppm": None}
    omission = {
        "method": "intended send times", "unit": "us",
        "raw": section(1.0, 2.0, 3.0, 4.0), "corrected": section(1.0, 2.0, 3.0, 5.0),
    }  # fmt: skip
    rows = rows_of({
        "steady_state": steady, "stalls": [{"first": 0, "seconds": 2}, {"first": 5, "seconds": 3}],
        "clock": clock,
        "coordinated_omission": omission,
    })  # fmt: skip
    assert rows == [
        ("State", "steady for 7 s, 2 s of warm-up left out, 20,001 messages/s, p50 44.0 us, "
         "p99 4.68 ms, p99.9 7.14 ms, max 9.40 ms"),
        ("Stalls", "2 stalls, 5 s in all, the longest 3 s"),
        ("Clocks", "offset at most 11.0 us"),
        ("Omission", "corrected by intended send times: p50 1.00 us, p99 2.00 us, p99.9 3.00 us, "
         "max 5.00 us"),
    ]  # fmt: skip


def test_a_drift_is_no_offset_and_a_correction_that_changes_nothing_is_not_told():
    clock = {"unit": "us", "offset_at_least": None, "offset_at_most": None, "drift_ppm": 3.0,
             "drift_low_ppm": 1.0, "drift_high_ppm": 5.0}  # fmt: skip
    same = {"method": "m", "unit": "us", "raw": section(1, 2, 3, 4),
            "corrected": section(1, 2, 3, 4)}  # fmt: skip
    found = rows_of(NOTHING | {"clock": clock, "coordinated_omission": same})
    assert found[1:] == [("Clocks", "drift 3.00 ppm")]
