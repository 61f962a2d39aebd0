"""What of a sink stands, whatever comes: a commit may be taken back as long as none of its parts is stored."""

from __future__ import annotations

from lakemq.gateway.sinks.staging import Part, Staging
from lakemq.storage.state.sinks import Sink, SinkState


def may_be_taken_back(state: SinkState, staging: Staging, sink: str, confirmed: int, followed: int | None) -> bool:
    """Whether the sink's last commit isn't there for good. `confirmed`: how far the log is; `followed`: how far it was
    as this broker began to lead, as far as it had heard; None: no other has ever had it. What was not confirmed then
    goes only with its parts' files."""
    before = state.before.get(sink)
    if before is None:
        return False
    if before.end > confirmed:
        return True
    if followed is not None and before.end <= followed:
        return False
    known = state.by_name[sink]
    return None in [committed_part(state, staging, sink, known.batch, name) for name in known.left]


def what_stands(state: SinkState, sink: str) -> Sink | None:
    """The sink as it was before the commit that may be taken back."""
    was = state.before[sink].sink
    return None if was is None else Sink(**was)


def committed_part(state: SinkState, staging: Staging, sink: str, batch: int, name: str) -> Part | None:
    """The part, if it is staged. One that is not what was committed is none."""
    part = staging.find(sink, batch, name)
    return None if part is None or state.is_over(sink, batch, name, part.token) else part
