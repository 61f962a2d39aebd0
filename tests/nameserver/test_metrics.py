from __future__ import annotations

import httpx

from lakemq.contract.metrics import COUNTER, NAMESERVER
from tests.metrics.page import Page
from tests.metrics.promtool import promtool
from tests.nameserver.asking import hear


def test_a_name_server_says_what_is_defined_as_promtool_wants_it(http: httpx.Client, broker: str) -> None:
    hear(http, broker, "t")
    http.get("/nothing")
    Page(http)
    page = Page(http)
    said = {family.name + "_total" if family.type == COUNTER else family.name for family in page.families.values()}
    assert said == {metric.name for metric in NAMESERVER}
    assert page("lakemq_nameserver_heartbeats_total") >= 1
    labels = {"http_request_method": "PUT", "http_route": "/v1/brokers/{broker}/replicas/{replica}"}
    assert page("http_server_request_duration_seconds_count", **labels, http_response_status_code="200") >= 1
    promtool("check", "metrics", text=page.text)
