"""A name server's numbers for Prometheus, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakemq.nameserver.name_server import NameServer


class NameServerCollector(Collector):
    """Collects from a name server."""

    def __init__(self, name_server: NameServer) -> None:
        self._name_server = name_server

    def collect(self) -> Iterator[Metric]:
        """All metrics, with the values of now."""
        registry, counters = self._name_server.registry, self._name_server.counters
        yield _gauge("brokers", "Brokers that have a replica here.", len(registry.shown))
        yield _gauge("replicas", "Replicas of all brokers.", len(registry))
        yield _gauge("topics", "Topics that some broker has.", registry.topic_count)
        yield _gauge("entries", "Topics of all replicas, each as often as it is told.", registry.entries)
        yield _gauge("watchers", "Requests that are held until routes change.", len(self._name_server.watchers))
        yield _counter("heartbeats", "Heartbeats of replicas.", counters.heartbeats)
        yield _counter("expired", "Replicas that are gone as they were not heard of.", counters.expired)
        yield _counter("unreachable", "Replicas that are gone as they refused a connection.", counters.unreachable)
        yield _counter("refused", "Heartbeats and watches that there was no room for.", counters.refused)
        yield _counter("connections_cut", "Closed on clients that were too slow.", counters.cut)
        yield _counter("tls_handshakes_failed", "TLS with who asked came to nothing.", counters.handshakes_failed)
        yield _gauge("unsent_bytes", "Bytes of answers that clients haven't taken.", counters.unsent_bytes())
        problems = CounterMetricFamily("lakemq_nameserver_problems", "Errors answered, by code.", labels=["code"])
        for code, count in sorted(counters.problems.items()):
            problems.add_metric([code], count)
        yield problems


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"lakemq_nameserver_{name}", what, value)


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"lakemq_nameserver_{name}", what, value)
