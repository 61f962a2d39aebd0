"""The broker's numbers for Prometheus, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.memory import parts_of


class BrokerCollector(Collector):
    """Collects from a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        """All metrics, with the values of now."""
        broker, log, counters = self._broker, self._broker.log, self._broker.work.counters
        yield CounterMetricFamily("lakemq_messages_in", "Messages accepted for storing.", counters.messages_in)
        yield CounterMetricFamily("lakemq_bytes_in", "Bytes of their bodies.", counters.bytes_in)
        yield CounterMetricFamily("lakemq_messages_out", "Messages answered to pulls.", counters.messages_out)
        yield CounterMetricFamily("lakemq_bytes_out", "Bytes of those answers.", counters.bytes_out)
        yield CounterMetricFamily("lakemq_frames_written", "Frames written to the log.", log.written[0])
        yield CounterMetricFamily("lakemq_log_bytes_written", "Bytes written to the log.", log.written[1])
        read = broker.cold.messages_read
        yield CounterMetricFamily("lakemq_cold_messages", "Messages read from the lake, not the log.", read)
        gone = broker.gaps.messages
        yield CounterMetricFamily("lakemq_gap_messages", "Messages that groups passed over: they are gone.", gone)
        problems = CounterMetricFamily("lakemq_problems", "Errors answered, by code.", labels=["code"])
        for code, count in sorted(counters.problems.items()):
            problems.add_metric([code], count)
        yield problems
        held_up = CounterMetricFamily("lakemq_over_quota", "Requests that a user's quota held up.", labels=["quota"])
        for quota, count in broker.quotas.refused.items():
            held_up.add_metric([quota], count)
        yield held_up
        positions = GaugeMetricFamily("lakemq_position", "Positions of the log.", labels=["kind"])
        for kind, position in broker.describe()["positions"].items():
            positions.add_metric([kind.removesuffix("_position")], position)
        yield positions
        yield from self._room()
        yield from self._following()
        yield GaugeMetricFamily("lakemq_connections", "Connections that are open.", counters.connections())
        yield CounterMetricFamily("lakemq_connections_cut", "Closed on clients that were too slow.", counters.cut)
        yield CounterMetricFamily(
            "lakemq_tls_handshakes_failed", "TLS with who asked came to nothing.", counters.handshakes_failed
        )
        unsent = counters.unsent_bytes()
        yield GaugeMetricFamily("lakemq_unsent_bytes", "Bytes of large answers that clients haven't taken.", unsent)
        ahead = counters.ahead_bytes()
        yield GaugeMetricFamily("lakemq_ahead_bytes", "Bytes of requests that wait for the answers to others.", ahead)
        memory = GaugeMetricFamily("lakemq_memory_bytes", "The process's memory, by what it is.", labels=["part"])
        for part, size in parts_of(broker).items():
            memory.add_metric([part], size)
        yield memory
        yield GaugeMetricFamily("lakemq_topics", "Topics.", len(log.topics))
        yield GaugeMetricFamily("lakemq_segments", "Segments of the log.", len(log.segments))
        broken, kept = self._broker.quarantine.damaged, self._broker.quarantine.kept
        yield GaugeMetricFamily("lakemq_damaged_segments", "Damaged, and nothing stands in for them yet.", len(broken))
        yield GaugeMetricFamily("lakemq_quarantined_segments", "Damaged files that others stand in for.", len(kept))
        yield GaugeMetricFamily("lakemq_waiting_requests", "Requests that are held.", len(broker.work.waiters))
        lag = broker.work.loop_lag
        late = "How much later than planned the event loop woke, ten times a second."
        yield HistogramMetricFamily("lakemq_loop_lag_seconds", late, lag.buckets(), lag.total_s)
        yield from self._routing()
        yield GaugeMetricFamily("lakemq_groups", "Consumer groups.", broker.groups.count)
        yield GaugeMetricFamily("lakemq_members", "Members of all groups.", log.state.groups.member_count)
        yield GaugeMetricFamily("lakemq_locks", "Queues that are locked.", len(broker.groups.locks.renewals))
        yield GaugeMetricFamily("lakemq_dirty_bytes", "Bytes written but not on disk yet.", log.flusher.dirty_bytes)
        yield GaugeMetricFamily("lakemq_writable", "1 when the log takes writes.", int(log.refusal() is None))

    def _following(self) -> Iterator[Metric]:
        """How the replicas do; of a follower, how it follows."""
        follower, replication = self._broker.follower, self._broker.replication
        confirmed = self._broker.log.confirmed_position
        yield GaugeMetricFamily("lakemq_confirmed_position", "All below is at all that are in sync.", confirmed)
        leads = int(replication is not None and not replication.is_replaced)
        yield GaugeMetricFamily("lakemq_leads", "1 while this replica leads the broker.", leads)
        epoch = self._broker.log.identity.now.epoch
        yield GaugeMetricFamily(
            "lakemq_epoch", "In which epoch the log is: each leader that is elected begins one.", epoch
        )
        if replication is not None:
            count, short = len(replication.in_sync), int(self._broker.log.too_few is not None)
            yield GaugeMetricFamily("lakemq_in_sync_replicas", "Replicas in sync, the primary too.", count)
            yield GaugeMetricFamily("lakemq_too_few_replicas", "1 while too few are for anything to be written.", short)
        if follower is not None:
            follows = int(follower.fault is None and follower.problem is None)
            yield GaugeMetricFamily("lakemq_following", "1 while the primary's log is followed.", follows)
            cut = 0 if follower.cut is None else follower.cut.messages
            what = "Messages that were cut off this follower's log as it was opened: its primary lacks them."
            yield GaugeMetricFamily("lakemq_truncated_messages", what, cut)
        if follower is not None and follower.lag is not None:
            yield GaugeMetricFamily("lakemq_follower_lag", "Positions that the primary is ahead.", follower.lag)

    def _room(self) -> Iterator[Metric]:
        """Whether the log can let go of what is old, and what is to come if not."""
        log_cleanup, retention = self._broker.log_cleanup, self._broker.log.retention
        free, total = retention.room()
        yield GaugeMetricFamily("lakemq_disk_free_bytes", "Free bytes of the log's disk.", free)
        yield GaugeMetricFamily("lakemq_disk_bytes", "All bytes of it.", total)
        full_in_s = log_cleanup.full_in_s
        full = float("inf") if full_in_s is None else full_in_s
        yield GaugeMetricFamily("lakemq_disk_full_in_seconds", "When it is full, at this pace.", full)
        dropped = retention.dropped.positions
        yield CounterMetricFamily("lakemq_dropped_messages", "Dropped, as the log was full, for good.", dropped)
        uncertain = log_cleanup.uncertain_messages
        yield GaugeMetricFamily("lakemq_uncompacted_messages", "Messages that are in the log alone.", uncertain)
        jump = retention.jump
        ahead_s = 0 if jump is None else jump.ahead_ms / 1000
        yield GaugeMetricFamily("lakemq_clock_ahead_seconds", "How far a clock that jumped is not believed.", ahead_s)

    def _routing(self) -> Iterator[Metric]:
        routing = self._broker.router
        waiting = GaugeMetricFamily("lakemq_waiting", "Messages that wait to be routed.", labels=["kind"])
        state = routing.state
        waiting.add_metric(["delay"], len(state.delays))
        waiting.add_metric(["transaction"], len(state.transactions))
        waiting.add_metric(["nack"], len(state.nacks))
        waiting.add_metric(["receipt"], len(state.receipts))
        waiting.add_metric(["dead_letter"], len(state.dead))
        yield waiting
        yield GaugeMetricFamily("lakemq_due_soon", "What is due within the lead.", len(routing.deliveries.dues))
        yield from self._late()
        yield CounterMetricFamily("lakemq_delivered", "Scheduled messages delivered.", routing.deliveries.delivered)

    def _late(self) -> Iterator[Metric]:
        """Whether the jobs do what they are for, and what the gateway had to do in their place."""
        routing = self._broker.router
        overdue = GaugeMetricFamily("lakemq_overdue", "Overdue by the grace and not decided.", labels=["kind"])
        for kind, count in routing.overdue.count().items():
            overdue.add_metric([kind], count)
        yield overdue
        here = CounterMetricFamily("lakemq_decided_overdue", "Decided here, being overdue.", labels=["kind"])
        for kind, count in [*routing.overdue.decided.items(), ("receipt", routing.run_out.decided)]:
            here.add_metric([str(kind)], count)
        yield here
        alive = GaugeMetricFamily("lakemq_job_alive", "1 while the job is heard of.", labels=["job"])
        lag = GaugeMetricFamily("lakemq_job_lag", "Positions of the log that the job has yet to read.", labels=["job"])
        for name, job in routing.jobs.describe().items():
            alive.add_metric([name], int(job["alive"]))
            if job["lag"] is not None:
                lag.add_metric([name], job["lag"])
        yield alive
        yield lag
