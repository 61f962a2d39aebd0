"""docs/metrics.md, made of the metrics' definitions: `python -m tests.docs.metrics` writes it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lakemq.contract import metrics
from lakemq.contract.metrics import Metric

FILE = Path("docs/metrics.md")
_HEAD = """# Metrics

<!-- made of lakemq/contract/metrics.py by `python -m tests.docs.metrics` -->

In Prometheus' text format, at `GET /metrics` of each server. What to do when one is wrong:
[operate.md](operate.md#alerts); rules, an example of how they are scraped, and a dashboard are in `conf/prometheus/`
and `conf/grafana/`. Where `auth.required` is set who asks needs a token, of a user who may `List` or `Get` the cluster:
names of all topics and groups are told.

Labels are bounded. Of topics `gateway.metrics_topics_max` have a label, and of groups `gateway.metrics_groups_max`:
once told, a name stays until it is gone; all others together are `other`, and `lakemq_unlabelled` says how many these
are. A route is told by its template, such as `/v1/topics/{topic}/messages`, never by what stands in its place.

Counters count since the process began, but for retries and dead letters of a group, which count since the group was
made. What a message takes for them on its way in is added to numbers that this way has in hand anyway. The log isn't
read for the page, and of the lake only where a queue begins that some group is as far behind in. What is by group is
looked at in slices, so that requests go on in between, and no more than 20,000 queues at once: of groups that weren't
come to, what was found the last time is told.

Names are those of OpenTelemetry's semantic conventions where they have one for what a server sees. Its
`messaging.client.…` are what clients see: here are the server's sides of them, under other names, so that the two can
be told apart in one Prometheus.

| OpenTelemetry | here |
|---|---|
"""


def page() -> str:
    """As Markdown."""
    lines = [f"| `{each.otel}` | `{each.name}` |" for each in metrics.ALL.values() if each.otel]
    attributes = {"messaging.destination.name": "topic", "messaging.consumer.group.name": "group"}
    attributes |= {name.replace("_", ".", 2): name for name in ("http_request_method", "http_route")}
    attributes |= {"http.response.status_code": "http_response_status_code"}
    lines += [f"| `{name}`, an attribute | label `{label}` |" for name, label in attributes.items()]
    sections = {
        "What comes and goes": metrics.TRAFFIC,
        "The log": metrics.LOG,
        "Replicas": metrics.FLEET,
        "What waits, and the jobs": metrics.ROUTING,
        "Groups": metrics.GROUPS,
        "Of a name server": metrics.NAMESERVER,
        "Of the jobs, where `maintenance.metrics_port` is set": metrics.JOBS,
    }
    return _HEAD + "\n".join([*lines, *(line for each in sections.items() for line in _section(*each))]) + "\n"


def _section(title: str, those: Iterable[Metric]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| metric | kind | labels | |"
    yield "|---|---|---|---|"
    for each in those:
        yield f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"


def main() -> None:
    """Write it."""
    FILE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
