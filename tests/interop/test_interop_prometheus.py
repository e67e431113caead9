"""A real Prometheus scrapes a server and a run: every expression of the dashboard has data."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.metrics import scrape_text
from support.processes import REPOSITORY, Running, free_port, run, wait_until
from support.server import running_server

pytestmark = pytest.mark.peer("prometheus")

EXAMPLES = REPOSITORY / "examples" / "grafana"
# Two snapshots are two seconds apart, and a rate needs two samples that differ.
RATE_INTERVAL = "10s"
SECONDS = 40.0
METRIC = re.compile(r"\b(?:quiver|process)_\w+")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "quiver.json").read_text())
    return found


def expressions() -> list[str]:
    """Return the panels' queries, with the variables that Grafana would fill in."""
    return [
        target["expr"].replace("$instance", ".*").replace("$__rate_interval", RATE_INTERVAL)
        for panel in dashboard()["panels"]
        for target in panel.get("targets", [])
    ]


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def has_data(self, expression: str) -> bool:
        """Say whether there is a number for an expression now."""
        values = [float(one["value"][1]) for one in self.get("query", query=expression)["result"]]
        return any(not math.isnan(value) for value in values)

    def is_ready(self) -> bool:
        try:
            return bool(self.get("targets")["activeTargets"])
        except OSError:
            return False


@contextlib.contextmanager
def prometheus(directory: Path, config: str) -> Iterator[Prometheus]:
    """Run Prometheus with a configuration until the end of the block."""
    (directory / "prometheus.yml").write_text(config)
    port = free_port()
    words = [
        "prometheus", f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]  # fmt: skip
    with Running(words) as running:
        found = Prometheus(port)
        wait_until(
            lambda: running.process.poll() is not None or found.is_ready(), "it is ready", 30
        )
        assert running.process.poll() is None, running.wait()
        yield found


def test_every_panel_has_data(tmp_path: Path) -> None:
    ports = {"9464": free_port(), "9465": free_port()}
    config = (EXAMPLES / "prometheus.yml").read_text()
    for documented, port in ports.items():
        assert config.count(f'"127.0.0.1:{documented}"') == 1
        config = config.replace(f'"127.0.0.1:{documented}"', f'"127.0.0.1:{port}"')
    with (
        running_server(
            tmp_path, metrics_port=ports["9464"], store=tmp_path / "store", durability="group"
        ) as server,
        prometheus(tmp_path, config) as asked,
        Running([
            sys.executable, "-m", "quiver_fast.cli.pair.command",
            f"//127.0.0.1:{server.port}/queue0", "--durable", "--settlement", "--rate", "500",
            "--duration", f"{SECONDS:.0f}s", "--metrics-port", str(ports["9465"]), "--quiet",
            "--output", str(tmp_path / "out"),
        ]) as measuring,
    ):  # fmt: skip
        missing = expressions()
        assert len(missing) > 25

        def all_have_data() -> bool:
            missing[:] = [one for one in missing if not asked.has_data(one)]
            return not missing

        with contextlib.suppress(AssertionError):
            wait_until(all_have_data, "every expression has data", SECONDS, pause=0.5)
        assert missing == []
        assert measuring.process.poll() is None, "the run has ended before"
        assert {target["health"] for target in asked.get("targets")["activeTargets"]} == {"up"}


def test_our_metrics_follow_the_rules(tmp_path: Path) -> None:
    """`promtool` finds nothing to say of names and help of ours: a server's, and a run's."""
    ours, runs = free_port(), free_port()
    with (
        running_server(tmp_path, metrics_port=ours) as server,
        Running([
            sys.executable, "-m", "quiver_fast.cli.pair.command",
            f"//127.0.0.1:{server.port}/q", "--rate", "500", "--duration", "30s",
            "--metrics-port", str(runs), "--quiet", "--output", str(tmp_path / "out"),
        ]),
    ):  # fmt: skip
        wait_until(lambda: has_metrics(runs), "the run has metrics", 20)
        for port in (ours, runs):
            (tmp_path / "metrics.txt").write_text(scrape_text(port))
            end = run(["sh", "-c", f"promtool check metrics < {tmp_path / 'metrics.txt'}"])
            assert (end.code, end.stdout, end.stderr) == (0, "", "")


def has_metrics(port: int) -> bool:
    try:
        return "quiver_latency_seconds_bucket{" in scrape_text(port)
    except OSError:
        return False


def test_the_document_explains_what_the_dashboard_shows() -> None:
    told = {*METRIC.findall((REPOSITORY / "docs" / "metrics.md").read_text())}
    asked = {name for one in expressions() for name in METRIC.findall(one)}
    assert {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            for name in asked} <= told  # fmt: skip
