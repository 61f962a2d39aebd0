"""Consumer groups: who is in one, what it has consumed, and who holds which queue (docs/groups.md).

What the log must keep is a record in `GROUP_TOPIC` (`storage/state/group_state.py`). When a member was last
heard of and a lock last renewed is kept in memory only: a restart counts as both.
"""

from __future__ import annotations

from lakemq.gateway.groups.registry import Groups

__all__ = ["Groups"]
