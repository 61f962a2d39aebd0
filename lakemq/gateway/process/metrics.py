"""The broker's numbers for Prometheus, read when they are asked for. `contract/metrics.py` says what each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric

from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.memory import parts_of
from lakemq.storage.read.stored_times import stored_by_ms
from lakemq.web.asgi import Client
from lakemq.web.families import families, family, histogram

LAKE_QUERY = "lake"
"""The job whose position says how far all tables are."""


class BrokerCollector:
    """Collects from a broker all that isn't by topic or group."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def collect(self, client: Client) -> Iterator[Metric]:
        """Its metrics, with the values of now. Raises `LogDamaged`, `Busy`."""
        routing = self._broker.router
        return self._collect(await routing.overdue.count(client), await routing.jobs.describe(client))

    def _collect(self, overdue: dict[str, int], jobs: dict[str, dict[str, Any]]) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._log()
        yield from self._room()
        yield from self._following()
        yield from self._routing(overdue, jobs)
        broker = self._broker
        yield family("lakemq_members", broker.log.state.groups.member_count)
        yield family("lakemq_locks", len(broker.groups.locks.renewals))

    def _requests(self) -> Iterator[Metric]:
        """What was asked, and what of it the process holds."""
        broker, counters = self._broker, self._broker.work.counters
        yield family("lakemq_messages_in_total", counters.messages_in)
        yield family("lakemq_bytes_in_total", counters.bytes_in)
        yield family("lakemq_messages_out_total", counters.messages_out)
        yield family("lakemq_bytes_out_total", counters.bytes_out)
        yield family("lakemq_messages_expired_total", counters.messages_expired + broker.router.executor.expired)
        yield histogram("http_server_request_duration_seconds", counters.durations.all())
        yield families("lakemq_problems_total", [((code,), count) for code, count in sorted(counters.problems.items())])
        yield families("lakemq_over_quota_total", [((each,), count) for each, count in broker.quotas.refused.items()])
        yield families("lakemq_trace_spans_total", [] if (to := broker.work.spans) is None else to.counts())
        yield family("lakemq_connections", counters.connections())
        yield family("lakemq_connections_cut_total", counters.cut)
        yield family("lakemq_tls_handshakes_failed_total", counters.handshakes_failed)
        end_s = counters.certificate_end_s()
        known = [] if end_s is None else [((), end_s)]
        yield families("lakemq_certificate_expiry_timestamp_seconds", known)
        yield family("lakemq_unsent_bytes", counters.unsent_bytes())
        yield family("lakemq_ahead_bytes", counters.ahead_bytes())
        yield family("lakemq_waiting_requests", len(broker.work.waiters))
        yield histogram("lakemq_loop_lag_seconds", [((), broker.work.loop_lag)])
        yield families("lakemq_memory_bytes", [((part,), size) for part, size in parts_of(broker).items()])

    def _log(self) -> Iterator[Metric]:
        """How far the log is, and what is wrong with it."""
        broker, log = self._broker, self._broker.log
        yield family("lakemq_frames_written_total", log.written[0])
        yield family("lakemq_log_bytes_written_total", log.written[1])
        yield family("lakemq_log_bytes", sum([segment.size for segment in log.segments]))
        yield family("lakemq_segments", len(log.segments))
        yield family("lakemq_topics", len(log.topics))
        positions = broker.positions().items()
        yield families("lakemq_position", [((kind.removesuffix("_position"),), at) for kind, at in positions])
        yield family("lakemq_dirty_bytes", log.flusher.dirty_bytes)
        yield family("lakemq_writable", int(log.refusal() is None))
        yield histogram("lakemq_flush_duration_seconds", [((), log.flusher.durations)])
        yield histogram("lakemq_fsync_duration_seconds", [((), log.flusher.sync_durations)])
        yield family("lakemq_damaged_segments", len(broker.quarantine.damaged))
        yield family("lakemq_quarantined_segments", len(broker.quarantine.kept))
        yield family("lakemq_cold_messages_total", broker.cold.messages_read)
        yield family("lakemq_gap_messages_total", broker.gaps.messages)

    def _following(self) -> Iterator[Metric]:
        """How the replicas do; of a follower, how it follows."""
        log, follower, replication = self._broker.log, self._broker.follower, self._broker.replication
        yield family("lakemq_confirmed_position", log.confirmed_position)
        yield family("lakemq_leads", int(replication is not None and not replication.is_replaced))
        yield family("lakemq_epoch", log.identity.now.epoch)
        led = (
            {}
            if replication is None
            else {
                "in_sync_replicas": len(replication.in_sync),
                "missing_replicas": len(replication.missing),
                "too_few_replicas": int(log.too_few is not None),
            }
        )
        followed: dict[str, int] = {}
        if follower is not None:
            followed["following"] = int(follower.fault is None and follower.problem is None)
            followed["truncated_messages"] = 0 if follower.cut is None else follower.cut.messages
            followed |= {} if follower.lag is None else {"follower_lag": follower.lag}
        # What there is of the other role only is told without a value.
        of_leader = ("in_sync_replicas", "missing_replicas", "too_few_replicas")
        for name in (*of_leader, "following", "truncated_messages", "follower_lag"):
            value = led.get(name, followed.get(name))
            yield families(f"lakemq_{name}", [] if value is None else [((), value)])

    def _room(self) -> Iterator[Metric]:
        """Whether the log can let go of what is old, and what is to come if not."""
        log_cleanup, retention = self._broker.log_cleanup, self._broker.log.retention
        free, total = retention.room()
        yield family("lakemq_disk_free_bytes", free)
        yield family("lakemq_disk_bytes", total)
        full_in_s = log_cleanup.full_in_s
        yield family("lakemq_disk_full_in_seconds", float("inf") if full_in_s is None else full_in_s)
        yield family("lakemq_dropped_messages_total", retention.dropped.positions)
        in_lake = self._in_lake()
        missing = self._broker.log.next_position - max(in_lake, self._broker.log.min_position)
        yield family("lakemq_uncompacted_messages", max(missing, 0))
        yield family("lakemq_uncompacted_seconds", self._behind_s(in_lake))
        jump = retention.jump
        yield family("lakemq_clock_ahead_seconds", 0 if jump is None else jump.ahead_ms / 1000)

    def _in_lake(self) -> int:
        """How far the lake holds the log, as far as anybody has said or looked: after a start, when nothing new comes,
        only the lake query's heartbeats say it."""
        log, read = self._broker.log, self._broker.router.jobs.position_of(LAKE_QUERY)
        return max(log.compacted_position, log.retention.certain_position, read or 0)

    def _behind_s(self, position: int) -> float:
        """How long ago the message at a position, or the first after it, was stored; 0 where there is none."""
        log = self._broker.log
        if position >= log.next_position:
            return 0.0
        return max(log.now_ms() - stored_by_ms(self._broker.reader, max(position, log.min_position)), 0) / 1000

    def _routing(self, overdue: dict[str, int], jobs: dict[str, dict[str, Any]]) -> Iterator[Metric]:
        """What waits, what of it is late, whether the jobs do what they are for, and what the gateway had to do in
        their place."""
        routing = self._broker.router
        state = routing.state
        waiting = {
            "delay": len(state.delays),
            "transaction": len(state.transactions),
            "nack": len(state.nacks),
            "receipt": len(state.receipts),
            "dead_letter": len(state.dead),
        }
        yield families("lakemq_waiting", [((kind,), count) for kind, count in waiting.items()])
        yield family("lakemq_due_soon", len(routing.deliveries.dues))
        yield families("lakemq_overdue", [((kind,), count) for kind, count in overdue.items()])
        here = [*routing.overdue.decided.items(), ("receipt", routing.run_out.decided)]
        yield families("lakemq_decided_overdue_total", [((str(kind),), count) for kind, count in here])
        yield family("lakemq_delivered_total", routing.deliveries.delivered)
        yield families("lakemq_job_alive", [((name,), int(job["alive"])) for name, job in jobs.items()])
        read = {name: job for name, job in jobs.items() if job["lag"] is not None}
        yield families("lakemq_job_lag", [((name,), job["lag"]) for name, job in read.items()])
        late = [((name,), self._behind_s(job["position"]) if job["lag"] else 0.0) for name, job in read.items()]
        yield families("lakemq_job_behind_seconds", late)
