"""The alert rules and the dashboard that lakemq brings, and which metrics they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.metrics.promtool import ROOT

ALERTS = "conf/prometheus/alerts.yml"
DASHBOARD = "conf/grafana/lakemq.json"
TARGET = frozenset(("broker", "instance", "job", "exported_job"))
"""Labels that Prometheus adds, as prometheus.yml says; the last one without its `honor_labels`."""
_METRIC = re.compile(r"\b(?:lakemq|http_server|up)[a-z_]*\b(?=[^a-z_(]|$)")
_SELECTOR = re.compile(r"([a-z_]+)\{([^}]*)\}")
_BY = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


class Asked(NamedTuple):
    """An expression, and where it stands."""

    place: str
    expression: str

    def metrics(self) -> set[str]:
        """The names of what it asks for."""
        return set(_METRIC.findall(re.sub(r'"[^"]*"|\{[^}]*\}', "", self.expression)))

    def selected(self) -> Iterator[tuple[str, str]]:
        """Each metric with a label that it is selected by."""
        for metric, labels in _SELECTOR.findall(self.expression):
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels):
                yield metric, label

    def grouped(self) -> set[str]:
        """The labels that it is summed by, or joined on."""
        return {
            label.strip() for labels in _BY.findall(self.expression) for label in labels.split(",") if label.strip()
        }


def rules() -> list[dict[str, Any]]:
    """Each alert."""
    return [rule for group in yaml.safe_load((ROOT / ALERTS).read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Each panel of the dashboard."""
    return json.loads((ROOT / DASHBOARD).read_text())["panels"]


def asked() -> list[Asked]:
    """All that alerts and dashboard ask for."""
    found = [Asked(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in panels():
        found += [Asked(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    for variable in json.loads((ROOT / DASHBOARD).read_text())["templating"]["list"]:
        if variable["type"] == "query":
            found.append(Asked(variable["name"], variable["query"]))
    return found
