"""A history of what clients did and saw, and a checker that knows nothing of the code.

Clients `Recorder.invoke` each operation before it is sent and end it as ok, failed or unknown; message
bodies are `Payload`s, unique and hashed. `check` reports what no run of a sound broker can show, each
finding with the operations that prove it. docs/reliability.md lists the kinds of operations.
"""

from __future__ import annotations

from lakemq.testing.history.check import check
from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import History, Operation, read_history
from lakemq.testing.history.payload import make_payload, name_of_payload
from lakemq.testing.history.recorder import Recorder

__all__ = [
    "Finding",
    "History",
    "Kind",
    "Operation",
    "Recorder",
    "check",
    "make_payload",
    "name_of_payload",
    "read_history",
]
