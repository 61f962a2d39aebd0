"""Metrics of the contract with their values, as `prometheus_client` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from lakemq.contract.metrics import ALL, COUNTER, GAUGE, HISTOGRAM
from lakemq.model.histogram import Histogram, buckets_of

Labels = Sequence[str]


def family(name: str, value: float) -> Metric:
    """One that has no labels."""
    return families(name, [((), value)])


def families(name: str, values: Iterable[tuple[Labels, float]]) -> Metric:
    """A counter or a gauge: its values, each with those of its labels."""
    metric = ALL[name]
    kinds = {COUNTER: CounterMetricFamily, GAUGE: GaugeMetricFamily}
    made = kinds[metric.kind](name.removesuffix("_total"), metric.help, labels=metric.labels)
    for labels, value in values:
        made.add_metric(labels, value)
    return made


def histogram(name: str, values: Iterable[tuple[Labels, Histogram]]) -> Metric:
    """A histogram, or several with their labels."""
    return counted(name, [(labels, each.bounds, each.counts, each.total) for labels, each in values])


def counted(name: str, values: Iterable[tuple[Labels, Sequence[float], Sequence[float], float]]) -> Metric:
    """`histogram`, of bounds, the counts between them, and the sum."""
    metric = ALL[name]
    assert metric.kind == HISTOGRAM, name
    made = HistogramMetricFamily(name, metric.help, labels=metric.labels)
    for labels, bounds, counts, total in values:
        made.add_metric(labels, buckets_of(bounds, counts), total)
    return made
