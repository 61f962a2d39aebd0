"""The jobs' numbers for Prometheus, on a port of their own."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from lakemq.contract.metrics import ALL
from lakemq.jobs.maintenance.runs import DIFFERS, DONE, Run
from lakemq.model.histogram import DURATION_BOUNDS_S

BATCH_BOUNDS_S = (*DURATION_BOUNDS_S[5:], 60.0, 120.0, 300.0)


class Metrics:
    """Counts runs and attempts; says of each job when it ran last, for how long and with what files; and of the lake
    query when its last batch was done, and how long batches take."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._runs = self._counter("lakemq_maintenance_runs_total")
        self._retries = self._counter("lakemq_maintenance_retries_total")
        self._ended = self._gauge("lakemq_maintenance_last_run_seconds")
        self._done = self._gauge("lakemq_maintenance_last_success_seconds")
        self._took = self._gauge("lakemq_maintenance_last_duration_seconds")
        self._files = self._gauge("lakemq_maintenance_files")
        self._bytes = self._gauge("lakemq_maintenance_bytes")
        batches = ALL["lakemq_lake_batch_duration_seconds"]
        self._batches = Histogram(batches.name, batches.help, registry=self.registry, buckets=BATCH_BOUNDS_S)
        self._batch_done = self._gauge("lakemq_lake_last_batch_timestamp_seconds")
        self._server: Any = None

    def observe(self, run: Run) -> None:
        """Takes in a run that has ended."""
        self._runs.labels(run.job, run.result).inc()
        self._retries.labels(run.job).inc(max(0, run.attempts - 1))
        self._ended.labels(run.job).set(run.ended_at / 1000)
        self._took.labels(run.job).set((run.ended_at - run.started_at) / 1000)
        if run.result in {DONE, DIFFERS}:
            self._done.labels(run.job).set(run.ended_at / 1000)
        self._files.set(run.files_after)
        self._bytes.set(run.bytes_after)

    def observe_batch(self, took_s: float) -> None:
        """The lake query has brought a batch to disk, in so many seconds. For any thread."""
        self._batches.observe(took_s)
        self._batch_done.set_to_current_time()

    def serve(self, host: str, port: int) -> None:
        """Answers `GET /metrics` until `close`. Raises `OSError` where the port is taken."""
        self._server, _ = start_http_server(port, host, self.registry)

    @property
    def port(self) -> int:
        """Where it answers; 0: nowhere."""
        return 0 if self._server is None else self._server.server_port

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _counter(self, name: str) -> Counter:
        return Counter(name, ALL[name].help, ALL[name].labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(name, ALL[name].help, ALL[name].labels, registry=self.registry)
