"""docs/metrics.md, made of the metrics' definitions: `python -m tests.docs.metrics` writes it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lakemq.contract import metrics
from lakemq.contract.metrics import Metric

FILE = Path("docs/metrics.md")
_HEAD = """# Metrics

<!-- made of lakemq/contract/metrics.py by `python -m tests.docs.metrics` -->

Each server answers `GET /metrics` in Prometheus' text format. [operate.md](operate.md#alerts) says what to do about
each alert; rules, an example scrape configuration, and a dashboard are in `conf/prometheus/` and `conf/grafana/`. With
`auth.required` you need a token with `List` or `Get` on the cluster, because the metrics name all topics and groups.

Labels are bounded. `gateway.metrics_topics_max` topics and `gateway.metrics_groups_max` groups have a label of their
own, and keep it until they are deleted; all others together are `other`, and `lakemq_unlabelled` counts them. A route
is labelled with its template, such as `/v1/topics/{topic}/messages`, never with actual names.

Counters count since the process started, except for retries and dead letters of a group, which count since the group
was created. On a message's way in, they are updated with numbers that are computed anyway. The page does not read the
log, and of the lake only the beginning of a queue, if a group's lag reaches that far. Values by group are computed in
slices, so that requests continue in between, and for at most 20,000 queues at once: groups that were not reached keep
their last value.

Names follow OpenTelemetry's semantic conventions if these have a name for what a server sees. Its `messaging.client.…`
are what clients see; the server's view has other names, so that you can tell the two apart in one Prometheus.

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
