from __future__ import annotations

from lakemq.contract.routes import HEALTH, PRODUCE
from lakemq.web.durations import Durations


def test_requests_are_told_by_template_and_methods_that_are_none_together() -> None:
    durations = Durations()
    for route, status in ((PRODUCE, 200), (PRODUCE, 200), (PRODUCE, 503), (HEALTH, 200), ("GET", 404)):
        durations.of(route, status).note(0.01)
    for method in ("BREW", "STEW"):
        durations.of(method, 405).note(0.01)
    told = {labels: sum(each.counts) for labels, each in durations.all()}
    assert told == {
        ("GET", "", "404"): 1,
        ("GET", "/healthz", "200"): 1,
        ("POST", "/v1/topics/{topic}/messages", "200"): 2,
        ("POST", "/v1/topics/{topic}/messages", "503"): 1,
        ("_OTHER", "", "405"): 2,
    }
