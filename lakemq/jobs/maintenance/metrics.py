"""The jobs' numbers for Prometheus, on a port of their own."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from lakemq.jobs.maintenance.runs import DIFFERS, DONE, Run


class Metrics:
    """Counts runs and attempts; says of each job when it ran last, for how long and with what files."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._runs = self._counter("runs", "Runs, by how they ended.", "job", "result")
        self._retries = self._counter("retries", "Attempts after the first.", "job")
        self._ended = self._gauge("last_run_seconds", "When the last run ended.", "job")
        self._done = self._gauge("last_success_seconds", "When the last run that did its work ended.", "job")
        self._took = self._gauge("last_duration_seconds", "How long the last run took.", "job")
        self._files = self._gauge("files", "Files of the tables after the last run.")
        self._bytes = self._gauge("bytes", "Bytes of these files.")
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

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"lakemq_maintenance_{name}", about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"lakemq_maintenance_{name}", about, labels, registry=self.registry)
