"""The metrics as data: name, kind, help and labels of each, once. The processes make their answers of it, and
docs/metrics.md is made of it.

Names are OpenTelemetry's where its semantic conventions have one for what a server sees, and else follow Prometheus'
rules: base units, `_total` of counters. `otel`: the convention that is this, or that is the same as clients see it.
"""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
TOPIC, GROUP = ("topic",), ("group",)


class Metric(NamedTuple):
    """One metric. A histogram's samples are called `name_bucket`, `name_sum` and `name_count`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    otel: str = ""

    @property
    def samples(self) -> tuple[str, ...]:
        """How its samples are called."""
        ends = ("_bucket", "_sum", "_count") if self.kind == HISTOGRAM else ("",)
        return tuple(self.name + end for end in ends)


def _gauge(name: str, text: str, *labels: str, otel: str = "") -> Metric:
    return Metric(f"lakemq_{name}", GAUGE, text, labels, otel)


def _counter(name: str, text: str, *labels: str, otel: str = "") -> Metric:
    return Metric(f"lakemq_{name}_total", COUNTER, text, labels, otel)


def _histogram(name: str, text: str, *labels: str, otel: str = "") -> Metric:
    return Metric(name, HISTOGRAM, text, labels, otel)


HTTP = _histogram(
    "http_server_request_duration_seconds",
    "From a request's head to the end of its answer, with what it asked to wait. By the route's template; empty:"
    " none fits.",
    *("http_request_method", "http_route", "http_response_status_code"),
    otel="http.server.request.duration",
)

TRAFFIC = (
    _counter("messages_in", "Messages accepted for storing."),
    _counter("bytes_in", "Bytes of their bodies."),
    _counter("messages_out", "Messages answered to pulls and receives."),
    _counter("bytes_out", "Bytes of these answers."),
    _counter("messages_expired", "Messages skipped because their time to live had expired."),
    _counter("topic_messages_in", "Messages accepted for storing.", *TOPIC, otel="messaging.client.sent.messages"),
    _counter("topic_bytes_in", "Bytes of their bodies.", *TOPIC),
    _counter(
        "topic_messages_out",
        "Messages answered to pulls and receives.",
        *TOPIC,
        otel="messaging.client.consumed.messages",
    ),
    _counter("topic_bytes_out", "Bytes of these answers.", *TOPIC),
    _histogram(
        "lakemq_topic_send_duration_seconds",
        "From a request with messages to its answer: when they are written, or as safe as it asked for.",
        *TOPIC,
        otel="messaging.client.operation.duration",
    ),
    _gauge("unlabelled", "Topics and groups reported together, as other: gateway.metrics_…_max.", "kind"),
    HTTP,
    _counter("problems", "Errors answered, by code.", "code"),
    _counter("over_quota", "Requests that a user's quota held up.", "quota"),
    _counter("trace_spans", "Spans that ended: exported, dropped (no room), failed (not taken).", "outcome"),
    _gauge("connections", "Connections that are open."),
    _counter("connections_cut", "Closed on clients that were too slow."),
    _counter("tls_handshakes_failed", "TLS with who asked came to nothing."),
    _gauge("certificate_expiry_timestamp_seconds", "When the certificate of tls.cert_file expires, or did."),
    _gauge("unsent_bytes", "Bytes of large answers that clients haven't taken."),
    _gauge("ahead_bytes", "Bytes of requests that wait for the answers to others."),
    _gauge("waiting_requests", "Requests that are held."),
    _histogram("lakemq_loop_lag_seconds", "How much later than planned the event loop woke, ten times a second."),
    _gauge("memory_bytes", "The process's memory, by what it is.", "part", otel="process.memory.usage"),
)

LOG = (
    _counter("frames_written", "Frames written to the log."),
    _counter("log_bytes_written", "Bytes written to the log."),
    _gauge("log_bytes", "Bytes of the log's segments."),
    _gauge("segments", "Segments of the log."),
    _gauge("topics", "Topics."),
    _gauge("position", "Positions of the log: min, max, flushed, confirmed, compacted.", "kind"),
    _gauge("dirty_bytes", "Bytes written but not on disk yet."),
    _gauge("writable", "1 when the log takes writes."),
    _histogram("lakemq_flush_duration_seconds", "From the begin of a flush until who waits for it is told."),
    _histogram("lakemq_fsync_duration_seconds", "Of that, what the disk took."),
    _gauge("damaged_segments", "Damaged, and nothing stands in for them yet."),
    _gauge("quarantined_segments", "Damaged files that others stand in for."),
    _counter("cold_messages", "Messages read from the lake, not the log."),
    _counter("gap_messages", "Messages that groups skipped because they no longer exist."),
    _gauge("disk_free_bytes", "Free bytes of the log's disk."),
    _gauge("disk_bytes", "All bytes of it."),
    _gauge("disk_full_in_seconds", "When it is full, at this pace."),
    _counter("dropped_messages", "Dropped, as the log was full, for good."),
    _gauge("uncompacted_messages", "Messages of the log, those of system topics too, that the lake lacks yet."),
    _gauge(
        "uncompacted_seconds",
        "How far the lake is behind the log: how long ago, at least, the first message was stored that it lacks.",
    ),
    _gauge("clock_ahead_seconds", "How far a clock that jumped is not believed."),
)

FLEET = (
    _gauge("confirmed_position", "All below is at all that are in sync."),
    _gauge("leads", "1 while this replica leads the broker."),
    _gauge("epoch", "In which epoch the log is: each leader that is elected begins one."),
    _gauge("in_sync_replicas", "On the leader: replicas in sync, including itself."),
    _gauge("missing_replicas", "On the leader: replicas that were in sync, aren't, and were not removed."),
    _gauge("too_few_replicas", "On the leader: 1 while too few replicas are in sync to write."),
    _gauge("following", "Of a follower: 1 while the primary's log is followed."),
    _gauge("truncated_messages", "Of a follower: messages cut off its log as it was opened: its primary lacks them."),
    _gauge("follower_lag", "Of a follower: positions that the primary is ahead."),
)

ROUTING = (
    _gauge("waiting", "Messages that wait to be routed: delay, transaction, nack, receipt, dead_letter.", "kind"),
    _gauge("due_soon", "What is due within the lead."),
    _gauge(
        "overdue",
        "Overdue by the grace, not decided: delayed messages, halves without an answer (transaction), nacks, receipts."
        " At most 10,000 transactions are counted, and receipts of 10,000 different times.",
        "kind",
    ),
    _counter("decided_overdue", "Decided here, and by no query: overdue, or due while the job is not alive.", "kind"),
    _counter("delivered", "Scheduled messages delivered."),
    _gauge("job_alive", "1 while the job sends heartbeats.", "job"),
    _gauge("job_lag", "Positions of the log that the job has yet to read.", "job"),
    _gauge(
        "job_behind_seconds",
        "How long ago, at least, the first message was stored that the job has yet to read; 0: it has read all.",
        "job",
    ),
)

GROUPS = (
    _gauge("groups", "Consumer groups."),
    _gauge("members", "Members of all groups."),
    _gauge("locks", "Queues that are locked."),
    _gauge("group_members", "Members of the group.", *GROUP),
    _gauge(
        "group_paused", "1 if the group is paused: it gets no messages. Of the others together, how many are.", *GROUP
    ),
    _gauge(
        "group_lag_messages",
        "Messages of its topics and of its retries that the group has yet to finish; none are known where members keep"
        " offsets themselves (broadcasting).",
        *GROUP,
    ),
    _gauge(
        "group_oldest_unconsumed_seconds",
        "How long ago, at least, the first of these was stored: of one in a segment whose index isn't in memory, when"
        " that segment was full.",
        *GROUP,
    ),
    _gauge("group_in_flight", "Messages that are handed out by receive, and not acknowledged yet.", *GROUP),
    _gauge("group_retries_waiting", "Nacked messages whose retry isn't due yet.", *GROUP),
    _counter("group_retries", "Retries and redriven dead letters given to the group, since it was made.", *GROUP),
    _counter("group_dead_letters", "Messages given up on, since the group was made.", *GROUP),
    _gauge(
        "group_dead_letters_open",
        "Messages in the group's %DLQ% topic that were neither redriven nor discarded nor deleted with it, nor erased"
        " while the log held them, including those that are gone from the lake. Those of before it was kept whose"
        " they are count as other.",
        *GROUP,
    ),
)

GATEWAY = (*TRAFFIC, *LOG, *FLEET, *ROUTING, *GROUPS)
"""Of a gateway, at its `GET /metrics`."""

NAMESERVER = (
    _gauge("nameserver_brokers", "Brokers that have a replica here."),
    _gauge("nameserver_replicas", "Replicas of all brokers."),
    _gauge("nameserver_topics", "Topics that some broker has."),
    _gauge("nameserver_entries", "Topics of all replicas, each as often as it is told."),
    _gauge("nameserver_watchers", "Requests that are held until routes change."),
    _counter("nameserver_heartbeats", "Heartbeats of replicas."),
    _counter("nameserver_expired", "Replicas removed after they sent no heartbeats."),
    _counter("nameserver_unreachable", "Replicas that are gone as they refused a connection."),
    _counter("nameserver_refused", "Heartbeats and watches that there was no room for."),
    _counter("nameserver_connections_cut", "Closed on clients that were too slow."),
    _counter("nameserver_tls_handshakes_failed", "TLS with who asked came to nothing."),
    _gauge("nameserver_certificate_expiry_timestamp_seconds", "When the certificate of tls.cert_file expires, or did."),
    _gauge("nameserver_unsent_bytes", "Bytes of answers that clients haven't taken."),
    _counter("nameserver_problems", "Errors answered, by code.", "code"),
    HTTP,
)
"""Of a name server, at its `GET /metrics`."""

JOBS = (
    _counter("maintenance_runs", "Runs, by how they ended.", "job", "result"),
    _counter("maintenance_retries", "Attempts after the first.", "job"),
    _gauge("maintenance_last_run_seconds", "When the last run ended.", "job"),
    _gauge("maintenance_last_success_seconds", "When the last run that did its work ended.", "job"),
    _gauge("maintenance_last_duration_seconds", "How long the last run took.", "job"),
    _gauge("maintenance_files", "Files of the tables after the last run."),
    _gauge("maintenance_bytes", "Bytes of these files."),
    _histogram(
        "lakemq_lake_batch_duration_seconds", "How long a batch of the lake query took, until all tables are on disk."
    ),
    _gauge("lake_last_batch_timestamp_seconds", "When the last one was done; 0: there was none yet."),
)
"""Of the jobs, at `maintenance.metrics_port`."""

ALL = {each.name: each for each in (*GATEWAY, *NAMESERVER, *JOBS)}
"""By name."""
