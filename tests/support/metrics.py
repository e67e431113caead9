"""The metrics of a process, read as Prometheus would."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

ACCEPT = "application/openmetrics-text; version=1.0.0"
SECONDS = 10.0

Sample = tuple[str, frozenset[tuple[str, str]]]


class Metrics:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self._samples: dict[Sample, float] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self._samples, f"twice: {key}"
                self._samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """Return the value of one series."""
        return self._samples[name, frozenset(labels.items())]

    def labels(self, name: str, label: str) -> list[str]:
        """Return the values of a metric's label."""
        return [dict(labels)[label] for found, labels in self._samples if found == name]

    def sum(self, name: str) -> float:
        """Return the sum of all series of a metric."""
        return sum(value for (found, _), value in self._samples.items() if found == name)


def scrape(port: int, host: str = "127.0.0.1") -> Metrics:
    """Ask for the metrics at a port."""
    request = urllib.request.Request(f"http://{host}:{port}/metrics", headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return Metrics(answer.read().decode())


def scrape_text(port: int) -> str:
    """Ask for the metrics as Prometheus' older text, which is what a person gets."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def without_prometheus_client(directory: Path) -> dict[str, Any]:
    """Return variables under which `prometheus_client` cannot be imported."""
    (directory / "prometheus_client.py").write_text("raise ImportError('not here')\n")
    return {"PYTHONPATH": str(directory)}
