"""Records, and what stands beside them, as other tools leave them: the commands say the same."""

import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from support.compressed import FORMS, REFUSED
from support.record_files import Traffic, receiver_lines, sender_lines
from support.summaries import config

from quiver_fast.cli.analyze.command import main
from quiver_fast.records.compression import without_suffix

COUNT = 1500
FACES = [("", b""), ("", BOM_UTF8), *((suffix, b"") for suffix in FORMS), (".xz", BOM_UTF8)]


def write_run(folder, suffix="", mark=b"", number=""):
    """Write a pair, with summaries and snapshots; of a run of two ends each with a number."""
    folder.mkdir(exist_ok=True)
    traffic = Traffic(3, COUNT)
    for role, lines in (("sender", sender_lines), ("receiver", receiver_lines)):
        name = f"{role}{number}-transfers.csv{suffix}"
        text = mark + "".join(lines(traffic, "v2")).encode()
        (folder / name).write_bytes(FORMS.get(suffix, bytes)(text))
        document = {"config": config("send" if role == "sender" else "receive", rate=200)}
        summary = mark + json.dumps(document).encode()
        (folder / f"{role}{number}-summary.json").write_bytes(summary)
        snapshots = (
            f"{traffic.sent[0]},500,0,0,0,0,10,1000\n{traffic.sent[-1]},500,0,0,0,0,10,1000\n"
        )
        (folder / f"{role}{number}-snapshots.csv").write_bytes(mark + snapshots.encode())


def analysed(capsys, *words):
    code = main([*map(str, words), "--quiet", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    found = json.loads(captured.out)
    for end in ("sender", "receiver"):
        if found.get(end) is not None:
            found[end]["file"] = without_suffix(found[end]["file"]).rpartition("/")[2]
    for key in ("name", "command", "analysed_with"):
        found.pop(key, None)
    return found


@pytest.mark.parametrize(("suffix", "mark"), FACES)
@pytest.mark.parametrize("word", ["", "*", "*-transfers.csv*"])
def test_a_pair(tmp_path, capsys, suffix, mark, word):
    write_run(tmp_path / "plain")
    write_run(tmp_path / "other", suffix, mark)
    words = [tmp_path / "other" / word]
    if word == "*":
        words = sorted((tmp_path / "other").glob("*-transfers.*"))
    found = analysed(capsys, *words)
    assert found["delivery"]["sent"] == COUNT
    assert found["sender"]["config"]["rate"] == 200
    assert found == analysed(capsys, tmp_path / "plain")


@pytest.mark.parametrize(("suffix", "mark"), FACES)
def test_a_pair_of_a_plain_and_another_file(tmp_path, capsys, suffix, mark):
    write_run(tmp_path / "plain")
    write_run(tmp_path / "other", suffix, mark)
    for file in (tmp_path / "other").glob("sender-transfers*"):
        file.unlink()
    plain = tmp_path / "plain" / "sender-transfers.csv"
    (tmp_path / "other" / plain.name).write_bytes(plain.read_bytes())
    assert analysed(capsys, tmp_path / "other") == analysed(capsys, tmp_path / "plain")


@pytest.mark.parametrize(("suffix", "mark"), FACES)
def test_a_run_of_many_ends(tmp_path, capsys, suffix, mark):
    for name, face in (("plain", ("", b"")), ("other", (suffix, mark))):
        write_run(tmp_path / name, *face, number=".0")
        for role in ("sender", "receiver"):
            summary = tmp_path / name / f"{role}.0-summary.json"
            document = json.loads(summary.read_bytes())
            document["results"] = None
            summary.write_text(json.dumps(document))
    found, plain = (analysed(capsys, tmp_path / name)["delivery"] for name in ("other", "plain"))
    assert found == plain
    assert found["sent"] == COUNT


@pytest.mark.parametrize(("suffix", "mark"), FACES)
def test_exports_and_the_page(tmp_path, capsys, suffix, mark):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_run(tmp_path / "run", suffix, mark)
    where = {f"--{form}": tmp_path / form for form in ("parquet", "html")}
    assert (
        main([str(tmp_path / "run"), *(str(word) for pair in where.items() for word in pair)]) == 0
    )
    table = parquet.read_table(tmp_path / "parquet" / "rows.parquet")
    assert table.column("id").null_count == 0
    assert "no record" not in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [*FORMS, *REFUSED])
@pytest.mark.parametrize("role", ["sender", "receiver", "receiver.0", "x"])
def test_what_is_not_read_fails_in_one_line(tmp_path, capsys, suffix, role):
    """Beside an end that is whole, too: it is not taken for a run without the other one."""
    write_run(tmp_path, number=".0" if role == "receiver.0" else "")
    (tmp_path / f"{role}-transfers.csv").unlink(missing_ok=True)
    data, words = REFUSED.get(suffix, (None, " is cut short: "))
    if data is None:
        text = "".join(f"{n},{1_700_000_000_000 + n * n},1800000000000\n" for n in range(30_000))
        data = FORMS[suffix](text.encode())
        data = data[: len(data) // 2]
    file = tmp_path / f"{role}-transfers.csv{suffix}"
    file.write_bytes(data)
    code = main([str(tmp_path)])
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert (code, captured.out) == (1, "")
    assert str(file) in line
    assert words in line


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
@pytest.mark.parametrize("role", ["sender", "receiver", "sender.0", "receiver.0"])
def test_wide_encodings_fail_in_one_line(tmp_path, capsys, encoding, role):
    write_run(tmp_path, number=".0" if role.endswith(".0") else "")
    file = tmp_path / f"{role}-transfers.csv"
    file.write_bytes(file.read_text().encode(encoding))
    code = main([str(tmp_path)])
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert (code, captured.out) == (1, "")
    assert f"iconv -f {encoding.upper().replace('-LE', 'LE').replace('-BE', 'BE')} -t UTF-8" in line


UPSTREAM = sorted(Path(__file__).parents[1].glob("support/upstream_runs/*/"))


@pytest.mark.parametrize("directory", UPSTREAM, ids=lambda directory: directory.name)
def test_directories_of_upstream(directory, capsys):
    """Upstream's own results of its own records are the oracle: 0.1 has fewer percentiles."""
    found = analysed(capsys, directory)
    delivery = found["delivery"]
    assert [delivery[key] for key in ("sent", "received", "unreceived")] == [300, 300, 0]
    for role in ("sender", "receiver"):
        summary = json.loads((directory / f"{role}-summary.json").read_text())
        ours, theirs = found[role]["results"], summary["results"]
        for key in ("latency_quartiles", "latency_nines"):
            wanted = theirs.pop(key)
            if wanted is not None:
                assert ours[key][-len(wanted) :] == wanted
        # Our means have nine digits.
        average = theirs.pop("latency_average")
        assert average is None or ours["latency_average"] == pytest.approx(average, rel=1e-8)
        assert {key: ours[key] for key in theirs} == theirs
        config = found[role]["config"]
        assert (config["count"], config["duration"]) == (300, summary["config"].get("duration", 0))
        assert config["url"].startswith("//127.0.0.1:")


def test_upstream_wrote_four_directories():
    assert [directory.name for directory in UPSTREAM] == ["0.1.0", "0.2.0", "0.3.0", "2024-12"]
