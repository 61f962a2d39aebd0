"""The alert for silent jobs, by what a real gateway says before and after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect
from tests.metrics.page import Page
from tests.metrics.promtool import ROOT, promtool
from tests.metrics.rules import ALERTS

MINUTES = 10
"""So long Prometheus sees each page."""
SCRAPED = ("lakemq_job_alive", "lakemq_leads")


def pages(folder: Path, *reports: bool) -> list[Page]:
    """What a gateway of that folder says in each of its lives, in which the lake job reports to it, or doesn't."""
    found: list[Page] = []
    for has_jobs in reports:
        with start_gateway(folder) as gateway, connect(gateway) as http:
            if has_jobs:
                jobs = [{"name": "lake", "position": 0, "clock_ms": 0}]
                assert http.put("/v1/jobs", json={"jobs": jobs}).status_code == 200
            found.append(Page(http))
    return found


def check(folder: Path, seen: list[Page], alerts: Sequence[Mapping[str, object]]) -> None:
    """Have promtool say whether these alerts, and no others of that name, fire as the last page is seen."""
    by_series: dict[str, list[str]] = {}
    for at, page in enumerate(seen):
        for family in (page.families[name] for name in SCRAPED):
            for sample in family.samples:
                labels = ", ".join(f'{name}="{each}"' for name, each in {**sample.labels, "broker": "x"}.items())
                values = by_series.setdefault(f"{sample.name}{{{labels}}}", [f"_x{MINUTES}"] * len(seen))
                values[at] = f"{sample.value:g}x{MINUTES - 1}"
    series = [{"series": name, "values": " ".join(values)} for name, values in by_series.items()]
    asked = {"eval_time": f"{len(seen) * MINUTES - 1}m", "alertname": "LakemqJobSilent", "exp_alerts": list(alerts)}
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ROOT / ALERTS)], "evaluation_interval": "15s", "tests": [test]}))
    promtool("test", "rules", str(file))


def test_it_fires_when_the_gateway_was_restarted_while_the_jobs_are_dead(tmp_path: Path) -> None:
    seen = pages(tmp_path / "data", True, False)
    fires = {
        "exp_labels": {"severity": "warning", "broker": "x", "job": "lake"},
        "exp_annotations": {
            "summary": "The job lake no longer reports to x.",
            "runbook": "docs/operate.md#lakemqjobsilent",
        },
    }
    check(tmp_path, seen, [fires])


@pytest.mark.parametrize("reports", [(False, False), (True, True)])
def test_it_is_silent_about_jobs_that_never_ran_and_such_as_are_back(tmp_path: Path, reports: tuple[bool, ...]) -> None:
    check(tmp_path, pages(tmp_path / "data", *reports), [])
