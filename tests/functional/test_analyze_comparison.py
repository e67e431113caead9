"""`quiver-analyze --compare` from the command line to verdicts and exit codes."""

import re
from xml.etree import ElementTree as ET

from support.documents import parsed
from test_analyze_command import EPOCH, analyze, write_run


def test_comparison(tmp_path, capsys):
    """The run is the unit: five of each have a verdict, fewer do not."""
    for number in range(5):
        write_run(tmp_path / "base" / str(number), 5 + number % 2, 3)
        write_run(tmp_path / "slower" / str(number), 9 + number % 2, 3, unit="us")
    base, slower = tmp_path / "base", tmp_path / "slower"
    code, out, _ = analyze(capsys, slower, "--compare", base)
    assert code == 0
    assert re.search(
        r"latency p50 +8\.00 ms +12\.0 ms +\+50\.0% .* 8\.00 ms +12\.0 ms +worse\n", out
    )
    assert re.search(
        r"message rate +200/s +200/s +[+-]0\.\d% .* no difference above 0\.\d %\n", out
    )
    assert "Verdict ............................................... worse" in out
    same = analyze(capsys, base, "--compare", base)[1]
    assert re.search(r"message rate .* no difference above 0\.\d %\n", same)
    # Clocks of milliseconds prove nothing of latencies of a few.
    assert re.search(r"\nlatency p50: so many runs show \d+%\n", same)
    document = parsed(analyze(capsys, base, "--compare", slower, "--json")[1])
    assert document["comparison"]["verdict"] == "better"
    code, out, _ = analyze(capsys, slower / "0", "--compare", base)
    assert code == 0
    assert "Verdict .................... too few runs: at least 5 of each" in out
    words = (slower, "--compare", base, "--fail-if", "worse", "--fail-if", "p50-change>50%")
    code, out, err = analyze(capsys, *words)
    assert code == 99
    assert re.search(r"worse: latency p50 \(\+50\.0%\), .*, BREACHED \(comparison\)\n", out)
    interval = r"the interval of the change is \+37\.5 % to \+62\.5 %"
    assert re.search(rf"p50-change>50%: 50 %, INCONCLUSIVE: {interval} \(comparison\)\n", out)
    assert err.startswith("quiver-analyze: error: --fail-if worse: latency p50 (+50.0%), ")
    words = (base, "--compare", slower, "--fail-if", "worse", "--fail-if", "rate-change<-5%")
    assert analyze(capsys, *words)[::2] == (0, "")
    each = [word for number in range(5) for word in ("--compare", slower / str(number))]
    again = parsed(analyze(capsys, base, *each, "--json")[1])
    assert again["comparison"] == document["comparison"]


def test_sides_made_one_after_the_other(tmp_path, capsys):
    """A machine that warms up makes the second directory worse: the order is known."""
    for number in range(5):
        for side, hours in (("base", 0), ("late", 1)):
            start = EPOCH + (hours * 60 + number) * 60_000
            write_run(tmp_path / side / str(number), 5 + 4 * hours, 3, "us", start=start)
    words = (tmp_path / "late", "--compare", tmp_path / "base", "--fail-if", "worse")
    junit = tmp_path / "junit.xml"
    code, out, err = analyze(capsys, *words, "--junit", junit)
    assert code == 0
    reason = (
        "not comparable: made one after the other; measure both in turns, or give --trust-order"
    )
    assert err == f"quiver-analyze: warning: --fail-if worse is inconclusive: {reason}\n"
    assert re.search(r"^Verdict \.+ not comparable: made one after the other$", out, re.M)
    assert "Measure both in turns (quiver --runs 10 --baseline BASE), or give --trust-order" in out
    assert "95 % intervals" not in out
    cases = {one.get("name"): one[0].tag for one in ET.parse(junit).getroot().iter("testcase")}
    assert (len(cases), set(cases.values())) == (5, {"skipped"})
    assert analyze(capsys, *words, "--fail-if", "inconclusive")[0] == 98
    assert analyze(capsys, *words, "--trust-order")[0] == 99
    change = (tmp_path / "late", "--compare", tmp_path / "base", "--fail-if", "p50-change>5%")
    assert analyze(capsys, *change)[0] == 0
    assert analyze(capsys, *change, "--trust-order")[0] == 99


def test_a_change_that_is_not_relevant(tmp_path, capsys):
    """Latencies of 7.025 ms and 7 ms, each the same in five runs."""
    for number in range(5):
        write_run(tmp_path / "base" / str(number), 4, 3, "us")
        directory = tmp_path / "next" / str(number)
        write_run(directory, 4, 3, "us")
        file = directory / "receiver-transfers.csv"
        lines = [line.split(",") for line in file.read_text().splitlines()]
        file.write_text("".join(f"{sent},{int(at) + 25}\n" for sent, at in lines))
    words = (tmp_path / "next", "--compare", tmp_path / "base", "--fail-if", "worse")
    code, out, err = analyze(capsys, *words)
    assert (code, err) == (0, "")
    assert re.search(r"latency p50 .* \+0\.4% .* difference below 1 %\n", out)
    code, _, err = analyze(capsys, *words, "--relevant", "0.1%")
    assert (code, "worse: latency p50 (+0.4%)" in err) == (99, True)
    code, _, err = analyze(capsys, *words, "--relevant", "1")
    assert (code, "'1' is not a share, such as 5% or 0.1%" in err) == (2, True)


def test_no_change_without_a_verdict(tmp_path, capsys):
    short = [write_run(tmp_path / name, latency, 5) for name, latency in (("a", 5), ("b", 50))]
    _, out, _ = analyze(capsys, short[1], "--compare", short[0])
    (line,) = re.findall(r"^latency p99 .*", out, re.MULTILINE)
    assert line.split() == ["latency", "p99", "11.0", "ms", "56.0", "ms", *"----",
                            "11.0", "ms", "56.0", "ms", "too", "few", "runs:", "at", "least", "5",
                            "of", "each"]  # fmt: skip
    assert "95 % intervals" not in out
