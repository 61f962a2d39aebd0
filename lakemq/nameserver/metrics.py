"""A name server's numbers for Prometheus, read when they are asked for. `contract/metrics.py` says what each is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakemq.nameserver.name_server import NameServer
from lakemq.web.families import families, family, histogram


class NameServerCollector(Collector):
    """Collects from a name server."""

    def __init__(self, name_server: NameServer) -> None:
        self._name_server = name_server

    def collect(self) -> Iterator[Metric]:
        """All metrics, with the values of now."""
        registry, counters = self._name_server.registry, self._name_server.counters
        yield family("lakemq_nameserver_brokers", len(registry.shown))
        yield family("lakemq_nameserver_replicas", len(registry))
        yield family("lakemq_nameserver_topics", registry.topic_count)
        yield family("lakemq_nameserver_entries", registry.entries)
        yield family("lakemq_nameserver_watchers", len(self._name_server.watchers))
        yield family("lakemq_nameserver_heartbeats_total", counters.heartbeats)
        yield family("lakemq_nameserver_expired_total", counters.expired)
        yield family("lakemq_nameserver_unreachable_total", counters.unreachable)
        yield family("lakemq_nameserver_refused_total", counters.refused)
        yield family("lakemq_nameserver_connections_cut_total", counters.cut)
        yield family("lakemq_nameserver_tls_handshakes_failed_total", counters.handshakes_failed)
        end_s = counters.certificate_end_s()
        known = [] if end_s is None else [((), end_s)]
        yield families("lakemq_nameserver_certificate_expiry_timestamp_seconds", known)
        yield family("lakemq_nameserver_unsent_bytes", counters.unsent_bytes())
        problems = sorted(counters.problems.items())
        yield families("lakemq_nameserver_problems_total", [((code,), count) for code, count in problems])
        yield histogram("http_server_request_duration_seconds", counters.durations.all())
