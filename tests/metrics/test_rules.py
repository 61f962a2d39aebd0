"""The alert rules, the dashboard and the example of scraping: each asks for what a broker says, and alerts fire for
what they are for."""

from __future__ import annotations

import re

import pytest

from lakemq.contract.metrics import ALL, HTTP, JOBS, NAMESERVER
from tests.metrics.promtool import ROOT, promtool
from tests.metrics.rules import ALERTS, TARGET, Asked, asked, panels, rules

SAMPLES = {sample: metric for metric in ALL.values() for sample in metric.samples}
EVERYWHERE = {"up"}
"""Prometheus' own."""


def test_the_rules_are_such() -> None:
    promtool("check", "rules", ALERTS)


def test_alerts_fire_for_what_they_are_for_and_none_where_all_is_well() -> None:
    promtool("test", "rules", "tests/metrics/alerts_test.yml")


def test_each_alert_is_tested() -> None:
    tests = (ROOT / "tests/metrics/alerts_test.yml").read_text()
    assert {rule["alert"] for rule in rules()} == set(re.findall(r'alertname="(\w+)"', tests))


def test_the_example_of_scraping_is_such() -> None:
    promtool("check", "config", "--syntax-only", "conf/prometheus/prometheus.yml")


@pytest.mark.parametrize("each", asked(), ids=lambda each: f"{each.place}: {each.expression[:30]}")
def test_what_is_asked_for_is_there(each: Asked) -> None:
    assert each.metrics()
    assert each.metrics() - EVERYWHERE <= SAMPLES.keys()
    for metric, label in each.selected():
        known = SAMPLES[metric].labels if metric in SAMPLES else ()
        assert label in (*known, *TARGET), f"{metric} has no label {label}"
    allowed = {label for metric in each.metrics() - EVERYWHERE for label in SAMPLES[metric].labels}
    assert each.grouped() <= allowed | TARGET | {"le"}


def test_each_alert_has_its_paragraph_and_each_paragraph_its_alert() -> None:
    page = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
    named = re.findall(r"^### (Lakemq\w+)$", page, re.MULTILINE)
    assert named == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/operate.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        paragraph = page.partition(f"### {rule['alert']}\n")[2].partition("\n#")[0]
        assert re.search(r"^1\. ", paragraph, re.MULTILINE), f"nothing says what to do about {rule['alert']}"


def test_the_page_has_an_index_of_all_alerts_what_wakes_somebody_first() -> None:
    page = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(Lakemq\w+)\]\(#(\w+)\) \| (\w+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    by_severity = sorted(rules(), key=lambda rule: ("critical", "warning", "info").index(rule["labels"]["severity"]))
    assert rows == [(rule["alert"], rule["alert"].lower(), rule["labels"]["severity"]) for rule in by_severity]


def test_the_dashboard_shows_much_of_what_there_is() -> None:
    shown = set[str]().union(*(each.metrics() for each in asked()))
    by_name = [metric for metric in ALL.values() if set(metric.labels) & {"topic", "group"}]
    assert [metric.name for metric in by_name if not shown & {*metric.samples}] == ["lakemq_group_dead_letters_total"]
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_names_follow_the_rules_of_who_serves_them() -> None:
    assert all(metric is HTTP or metric.name.startswith("lakemq_nameserver_") for metric in NAMESERVER)
    assert not {metric.name for metric in JOBS} & {metric.name for metric in ALL.values() if metric not in JOBS}
