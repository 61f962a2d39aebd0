"""The spans as data: what each is of, once. Client, gateway and jobs make theirs of it, and docs/traces.md lists them.

Names and attributes are those of OpenTelemetry's semantic conventions for messaging spans where these have one:
a span is called `operation destination`. What they have no word for, as it is a broker's own, begins with `lakemq.`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["internal", "server", "client", "producer", "consumer"]
"""OpenTelemetry's kinds of spans."""
Value = str | int

SYSTEM = "lakemq"
TOPIC = "messaging.destination.name"
QUEUE = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
MESSAGE_ID = "messaging.message.id"
BODY_BYTES = "messaging.message.body.size"
COUNT = "messaging.batch.message_count"
ERROR = "error.type"
ORIGIN_ID = "lakemq.origin_message_id"
RECONSUME_TIMES = "lakemq.reconsume_times"
CHECK_TIMES = "lakemq.check_times"
DUE = "lakemq.due_ms"
BROKER = "lakemq.broker"
JOB = "lakemq.job"
ROWS = "lakemq.rows"
LISTENER_RESULT = "lakemq.result"


class Operation(NamedTuple):
    """What a span is of. `type`: OpenTelemetry's of such operations; empty: it has none."""

    name: str
    type: str
    kind: Kind
    help: str

    def span_name(self, destination: str) -> str:
        """How a span of it is called."""
        return f"{self.name} {destination}"

    def attributes(self, topic: str, group: str = "") -> dict[str, Value]:
        """What each span of it says: new, for the caller to add to."""
        said: dict[str, Value] = {"messaging.system": SYSTEM, "messaging.operation.name": self.name, TOPIC: topic}
        if self.type:
            said["messaging.operation.type"] = self.type
        if group:
            said[GROUP] = group
        return said


SEND = Operation("send", "send", "producer", "A message is sent, until its broker has answered.")
PROCESS = Operation("process", "process", "consumer", "A listener's call.")
DELIVER = Operation("deliver", "", "internal", "A delayed message, or a retry, comes to its topic: since it was due.")
COMMIT = Operation("commit", "", "internal", "A half becomes a message of its topic.")
ROLLBACK = Operation("rollback", "", "internal", "A half is rolled back.")
CHECK = Operation("check", "", "internal", "A producer is to say what becomes of its half.")
GIVE_UP = Operation("give_up", "", "internal", "A half is rolled back, as no check was answered.")
RETRY = Operation("retry", "settle", "internal", "A group is to get it again: since its nack, or since it ran out.")
DEAD_LETTER = Operation("dead_letter", "settle", "internal", "A group has failed on it too often.")
ACK = Operation("ack", "settle", "internal", "A group has processed it.")
EXPIRE = Operation("expire", "settle", "internal", "It would come to a group again, and its time to live is over.")
RECALL = Operation("recall", "", "internal", "A delayed message is taken back before it was due.")
REDRIVE = Operation("redrive", "", "internal", "A dead letter comes to its group again.")
REPLAY = Operation("replay", "", "internal", "It comes again by a sink, as a copy.")

OF_MESSAGES = (
    *(DELIVER, RECALL, COMMIT, ROLLBACK, CHECK, GIVE_UP),
    *(ACK, RETRY, EXPIRE, DEAD_LETTER, REDRIVE, REPLAY),
)
"""What becomes of a message in its broker: spans of the message's own trace."""
OPERATIONS = (SEND, PROCESS, *OF_MESSAGES)
BATCH = "batch"
"""A batch of a job's query is called `batch JOB`."""
